"""What the retention watch foretells on a broker that deletes, and that it happens then and not before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, KafkaProducer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, parse_instant
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.kafka import Broker
from tests.integration.airflow.conftest import (
    Publish,
    Resolve,
    sasl,
    use_connection,
)
from tests.integration.airflow.retention_watch.conftest import BY_SIZE, DAY, HOUR_MS, MakeTopic, Write
from tests.integration.airflow.retention_watch.logs import (
    Watch,
    deleted_at_ms,
    keep_for,
    log_start,
    remember_growth,
    store,
    timed,
)
from tests.integration.conftest import USERS
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
        told = {"by": "time", "topic": name, "partition": 0, "lost": 0, "unknown": 0}
        assert before == [
            {"window": window, "offsets": 6, "loses_at": iso_instant(first_ms + 24 * HOUR_MS)} | told,
            {"window": "backlog", "offsets": 4, "loses_at": iso_instant(first_ms + 6 + 24 * HOUR_MS)} | told,
        ]
        keep_for(admin, name, now_ms() - first_ms + 500 + 4 * took_ms)
        (soon, _) = watch()
        assert (soon["window"], soon["lost"]) == (window, 0)
        assert parse_instant(soon["loses_at"]) <= deleted_at_ms(client, name)
        assert [(each["loses_at"], each["lost"]) for each in watch()] == [(None, 6), (None, 4)]


class TestForetoldBySize:
    def test_a_window_loses_its_records_once_what_follows_is_large_enough(
        self,
        topic: MakeTopic,
        write: Write,
        resolve: Resolve,
        watch: Watch,
        client: OffsetsClient,
        ledger: Ledger,
    ) -> None:
        name, at_ms = topic(BY_SIZE), now_ms()
        remember_growth(client, ledger, name, minutes=20)
        write(name, [at_ms - 100 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 100), iso_instant(at_ms - 95))
        (window, _) = watch()
        # A megabyte in 20 minutes, and half a megabyte to go.
        left_s = (parse_instant(window["loses_at"]) - now_ms()) / 1000
        assert (window["by"], window["offsets"], window["lost"], window["unknown"]) == ("size", 5, 0, 0)
        assert 560 < left_s < 600
        write(name, [at_ms] * 3)
        assert parse_instant(watch()[0]["loses_at"]) > now_ms()
        assert log_start(client, name) == 0
        write(name, [at_ms] * 15)
        deleted_at_ms(client, name)
        assert [each["lost"] for each in watch() if each["window"] == window["window"]] == [5]

    def test_a_log_that_holds_as_much_as_it_may_is_in_danger_now(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch
    ) -> None:
        """However it grows: its oldest segment goes as soon as the next ones are large enough."""
        name, at_ms = topic(BY_SIZE | {"segment.bytes": str(2**24)}), now_ms()
        write(name, [at_ms - 100 + n for n in range(20)])
        resolve(name, iso_instant(at_ms - 100), iso_instant(at_ms - 90))
        (window, _) = watch()
        assert abs(parse_instant(window["loses_at"]) - now_ms()) < 5_000
        with pytest.raises(AirflowFailException, match=r"1 of 2 windows .* lose some within 60 s: .* by size about"):
            watch(fail_within=60)

    def test_a_partition_that_is_idle_loses_none(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, client: OffsetsClient, ledger: Ledger
    ) -> None:
        name, at_ms = topic(BY_SIZE), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        remember_growth(client, ledger, name, minutes=20)
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        assert [(each["loses_at"], each["unknown"]) for each in watch(fail_within=timedelta(days=999))] == [(None, 0)]

    def test_without_a_snapshot_of_a_while_ago_it_is_unknown(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch
    ) -> None:
        name, at_ms = topic(BY_SIZE), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        assert [(each["loses_at"], each["unknown"]) for each in watch()] == [(None, 1)]

    def test_when_its_leader_can_not_say_what_is_on_its_disk_it_is_unknown_and_told(
        self,
        topic: MakeTopic,
        write: Write,
        resolve: Resolve,
        watch: Watch,
        client: OffsetsClient,
        ledger: Ledger,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """KIP-405: the size is that of this part alone."""
        name, at_ms, timed_out = topic(BY_SIZE), now_ms(), ResponseError("REQUEST_TIMED_OUT", 7, True)
        remember_growth(client, ledger, name, minutes=20)
        write(name, [at_ms - 100 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 100), iso_instant(at_ms - 95))

        def list_offsets(_: OffsetsClient, pieces: Iterable[Any], spec: OffsetSpec) -> ListedOffsets:
            return ListedOffsets(ListedOffset(*each, spec, ListOutcome.ERROR, error=timed_out) for each in pieces)

        monkeypatch.setattr(OffsetsClient, "list_offsets", list_offsets)  # no broker fails this question alone
        assert [(each["loses_at"], each["unknown"]) for each in watch()] == [(None, 1)] * 2
        assert f"{name}-0 (loss by size unknown: the size of its records is unknown: REQUEST_TIMED_OUT (7))" in (
            capsys.readouterr().out
        )
        with pytest.raises(OffsetsError, match=f"{name}-0: REQUEST_TIMED_OUT") as failed:
            watch(fail_within=60)
        assert failed.value.retriable


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
        assert (window["loses_at"], window["by"], window["lost"], window["unknown"]) == (None, None, 0, 0)

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


class TestWithoutTheAclOnTheCluster:
    def test_time_is_told_and_size_is_unknown(
        self,
        topic: MakeTopic,
        write: Write,
        resolve: Resolve,
        watch: Watch,
        deleting: Broker,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        use_connection(monkeypatch, "alice", sasl(deleting, "alice", USERS["alice"]))
        name, at_ms = topic(BY_SIZE | DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        (window,) = watch(kafka_conn_id="alice")
        assert (window["by"], window["unknown"]) == ("time", 1)
        assert window["loses_at"] == iso_instant(at_ms - 10 + 24 * HOUR_MS)
        unknown = "loss by size unknown: the size of its records is unknown: CLUSTER_AUTHORIZATION_FAILED (31)"
        assert unknown in capsys.readouterr().out
        with pytest.raises(AirflowFailException, match=rf"1 of 1 windows .*{name}-0 \({re.escape(unknown)}"):
            watch(kafka_conn_id="alice", fail_within=60)
        assert watch(kafka_conn_id="alice", fail_within=60, on_unknown="warn") == [window]


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
