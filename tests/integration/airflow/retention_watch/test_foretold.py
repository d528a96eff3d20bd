"""What the retention watch foretells on a broker that deletes, and that it happens then and not before."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, KafkaProducer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, parse_instant
from dev.kafka import Broker
from tests.integration.airflow.conftest import Publish, Resolve
from tests.integration.airflow.retention_watch.conftest import DAY, HOUR_MS, MakeTopic, Write
from tests.integration.airflow.retention_watch.logs import Watch, deleted_at_ms, keep_for, store, timed
from tests.integration.kafka_clients import connect


class TestForetoldByTime:
    def test_a_window_loses_its_records_then_and_not_before(
        self,
        topic: MakeTopic,
        write: Write,
        resolve: Resolve,
        watch: Watch,
        client: OffsetsClient,
        admin: KafkaAdminClient,
    ) -> None:
        name, first_ms = topic(DAY), now_ms() - 100
        write(name, [first_ms + n for n in range(10)])
        window = resolve(name, iso_instant(first_ms), iso_instant(first_ms + 6))["window"]
        before, took_ms = timed(watch)
        told = {"topic": name, "partition": 0, "lost": 0, "unknown": 0}
        assert before == [
            {"window": window, "offsets": 6, "loses_at": iso_instant(first_ms + 24 * HOUR_MS)} | told,
            {"window": "backlog", "offsets": 4, "loses_at": iso_instant(first_ms + 6 + 24 * HOUR_MS)} | told,
        ]
        # Until the watch has told: a busy machine may take far longer for the second look than for the first.
        keep_for(admin, name, now_ms() - first_ms + 5_000 + 4 * took_ms)
        (soon, _) = watch()
        assert (soon["window"], soon["lost"]) == (window, 0)
        assert parse_instant(soon["loses_at"]) <= deleted_at_ms(client, name)
        assert [(each["loses_at"], each["lost"]) for each in watch()] == [(None, 6), (None, 4)]


class TestALimitOfSize:
    def test_is_warned_of_beside_what_time_deletes(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name, at_ms = topic(DAY | {"retention.bytes": "1500000"}), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        (window,) = watch(fail_within=60)
        assert (window["loses_at"], window["unknown"]) == (iso_instant(at_ms - 10 + 24 * HOUR_MS), 0)
        assert f"Topic {name} keeps at most 1500000 bytes per partition" in capsys.readouterr().out


class TestWithoutDanger:
    @pytest.mark.parametrize(
        "config",
        [
            pytest.param({"retention.ms": "-1"}, id="infinite retention"),
            pytest.param({"retention.ms": "1000", "cleanup.policy": "compact"}, id="compacted"),
            pytest.param({"retention.ms": str(2**63 - 1)}, id="the longest retention"),
        ],
    )
    def test_no_moment_is_told(
        self, config: Mapping[str, str], topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch
    ) -> None:
        name, at_ms = topic(config), now_ms() - HOUR_MS
        write(name, [at_ms + n for n in range(10)])
        resolve(name, iso_instant(at_ms), iso_instant(at_ms + 10))
        (window,) = watch(fail_within=timedelta(days=999))
        assert (window["loses_at"], window["lost"], window["unknown"]) == (None, 0, 0)

    def test_a_window_that_is_loaded_is_left_out(
        self, topic: MakeTopic, write: Write, resolve: Resolve, publish: Publish, watch: Watch
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        publish(resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms - 5)))
        (backlog,) = watch()
        assert (backlog["window"], backlog["offsets"]) == ("backlog", 5)

    def test_a_misspelt_pipeline_is_not_one_without_danger(self, watch: Watch, ledger: Ledger) -> None:
        with pytest.raises(AirflowFailException, match="There is no ledger at"):
            watch(fail_within=timedelta(days=2))

    def test_windows_without_records_are_left_out(self, topic: MakeTopic, resolve: Resolve, watch: Watch) -> None:
        name, at_ms = topic(DAY), now_ms()
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        assert watch() == []


class TestUnknownTime:
    def test_of_a_record_whose_codec_is_missing_fails_the_task_and_names_the_library(
        self, topic: MakeTopic, resolve: Resolve, watch: Watch, deleting: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        # In one batch: the timestamp of a record that is alone in its batch is known without unpacking it.
        settings = {"compression_type": "lz4", "linger_ms": 10_000, "bootstrap_servers": deleting.bootstrap_servers}
        with closing(connect(KafkaProducer, **settings)) as producer:
            for number in range(10):
                producer.send(name, partition=0, value=b"x" * 500, timestamp_ms=at_ms - 10 + number)
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        monkeypatch.setattr("kafka.codec.lz4", None)  # as where it isn't installed
        missing = r"1 of 1 windows .*lz4.*pip install 'airflow-kafka-offsets\[codecs\]'"
        with pytest.raises(AirflowFailException, match=missing):
            watch(fail_within=60)
        assert [(each["loses_at"], each["unknown"]) for each in watch(fail_within=60, on_unknown="warn")] == [(None, 1)]

    def test_of_a_record_without_a_timestamp_fails_the_task(
        self, topic: MakeTopic, watch: Watch, deleting: Broker, client: OffsetsClient, ledger: Ledger
    ) -> None:
        name = topic(DAY)
        store(client, ledger, name, 0)
        with closing(connect(KafkaProducer, bootstrap_servers=deleting.bootstrap_servers)) as producer:
            producer.send(name, partition=0, value=b"x", timestamp_ms=-1)
        with pytest.raises(AirflowFailException, match="its first record has no timestamp"):
            watch(fail_within=60)
