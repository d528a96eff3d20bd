"""The options of Spark's Kafka reader for a pinned window."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import left_of
from airflow_kafka_offsets.spark.kafka.reader import exactly, reader_options
from tests.unit.spark.manifests import manifest_of

BROKER = {"kafka.bootstrap.servers": "broker:9092"}
MANIFEST = manifest_of([("flights", 0, 10, 20), ("flights", 1, 7, 7), ("flights", 2, 0, 5), ("weather", 0, 3, 4)])


class TestPinnedOptions:
    def test_assigns_the_ranges_that_hold_something_and_no_others(self) -> None:
        """An empty range would cost a task, and a topic that grew would fail ``subscribe`` (S6, S17)."""
        assert json.loads(exactly(left_of(MANIFEST))["assign"]) == {"flights": [0, 2], "weather": [0]}

    def test_start_and_end_name_the_same_partitions(self) -> None:
        """Spark fails when they don't (S19), and their numbers leave nothing to be resolved later (S24)."""
        options = exactly(left_of(MANIFEST))

        assert json.loads(options["startingOffsets"]) == {"flights": {"0": 10, "2": 0}, "weather": {"0": 3}}
        assert json.loads(options["endingOffsets"]) == {"flights": {"0": 20, "2": 5}, "weather": {"0": 4}}

    @pytest.mark.parametrize("level", list(IsolationLevel))
    def test_reads_at_the_isolation_level_that_the_offsets_were_resolved_at(self, level: IsolationLevel) -> None:
        """S9."""
        manifest = manifest_of([("flights", 0, 10, 20)], isolation_level=level)

        assert reader_options(manifest, BROKER, {})["kafka.isolation.level"] == level

    def test_data_loss_fails_the_job(self) -> None:
        """S13."""
        assert reader_options(MANIFEST, BROKER, {})["failOnDataLoss"] == "true"

    @pytest.mark.parametrize("name", ["assign", "STARTINGOFFSETS", "endingTimestamp", "failOnDataLoss"])
    def test_what_the_manifest_decides_can_not_be_set(self, name: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{name} can't be set"):
            reader_options(MANIFEST, BROKER, {name: "latest"})

    def test_a_connection_can_not_change_the_isolation_level(self) -> None:
        with pytest.raises(ConfigurationError, match=r"kafka\.isolation\.level can't be set"):
            reader_options(MANIFEST, BROKER | {"kafka.isolation.level": "read_uncommitted"}, {})

    def test_a_window_with_records_needs_a_broker(self) -> None:
        with pytest.raises(ConfigurationError, match=r"spark\.kafkaOffsets\.kafka\.bootstrap\.servers"):
            reader_options(MANIFEST, {}, {})


class TestSpeed:
    def test_reads_fast_by_default(self) -> None:
        options = reader_options(MANIFEST, BROKER, {})

        assert options["kafka.max.poll.records"] == "20000"
        assert options["kafka.max.partition.fetch.bytes"] == "4194304"
        assert options["kafka.receive.buffer.bytes"] == "-1"

    def test_the_connection_beats_the_defaults_and_the_caller_beats_both(self) -> None:
        connection = BROKER | {"kafka.max.poll.records": "100", "kafka.receive.buffer.bytes": "65536"}
        options = reader_options(MANIFEST, connection, {"kafka.max.poll.records": "7"})

        assert (options["kafka.max.poll.records"], options["kafka.receive.buffer.bytes"]) == ("7", "65536")
