"""How large a record is, for the split plan: by what was loaded, else by the log's size on disk, else not known."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.submission.record_size import record_size_conf
from tests.integration.airflow.conftest import Resolve, at, use_connection
from tests.integration.ledger.loads import publish

CONF = "spark.kafkaOffsets.bytesPerRecord"


@pytest.fixture
def window(ten: str, resolve: Resolve) -> dict[str, Any]:
    """All ten records, each of one byte."""
    return resolve(ten, at(0), at(20))


def publish_with(ledger: Ledger, window: dict[str, Any], bytes_per_record: float | None) -> None:
    """Publish a window, whose driver found its records so large."""
    ledger.read()
    found = ledger.window(window["window"])
    publish(ledger, found, read=Tally(found.offsets, bytes_per_record=bytes_per_record))


def conf(ledger: Ledger, window: dict[str, Any]) -> dict[str, str]:
    ledger.read()
    return record_size_conf(KafkaOffsetsHook(), ledger, ledger.pinned(ledger.window(window["window"])).manifest)


class TestRecordSize:
    def test_before_anything_is_loaded_it_is_that_of_the_log(self, ledger: Ledger, window: dict[str, Any]) -> None:
        """With what Kafka adds: 8 bytes a record, and 61 a batch, of which there are one to ten."""
        assert 15 < float(conf(ledger, window)[CONF]) < 71

    def test_later_it_is_what_the_last_window_had(self, ledger: Ledger, window: dict[str, Any]) -> None:
        """Keys and values, as Spark got them."""
        publish_with(ledger, window, 1234.5)
        assert conf(ledger, window) == {CONF: "1234.5"}

    def test_in_a_backfill_it_is_what_the_window_before_had_and_not_the_newest(
        self, ledger: Ledger, ten: str, resolve: Resolve
    ) -> None:
        before, backfilled, newest = (resolve(ten, at(n), at(n + 3)) for n in (0, 3, 6))
        for window, size in ((before, 20.0), (newest, 90.0)):
            publish_with(ledger, window, size)
        assert conf(ledger, backfilled) == {CONF: "20.0"}

    def test_a_file_that_can_not_be_read_is_no_matter(
        self, ledger: Ledger, ledger_root: Path, window: dict[str, Any]
    ) -> None:
        publish_with(ledger, window, 1234.5)
        (result,) = ledger_root.rglob("*.result.json")
        result.write_bytes(b"")
        assert conf(ledger, window) == {}

    def test_a_window_without_offsets_needs_none(self, ledger: Ledger, ten: str, resolve: Resolve) -> None:
        assert conf(ledger, resolve(ten, at(-20), at(-10))) == {}

    def test_where_kafka_can_not_be_asked_the_load_goes_without(
        self,
        ledger: Ledger,
        window: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "1")
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})

        with caplog.at_level(logging.INFO):
            assert conf(ledger, window) == {}
        assert "The size of a record is unknown" in caplog.text
