"""The retention watch on a broker that deletes: what it foretells, and that it happens then and not before."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError, OffsetsError, ResponseError, TopicChangedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, parse_instant
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from airflow_kafka_offsets.operators.retention_watch import KafkaRetentionWatchOperator
from airflow_kafka_offsets.operators.snapshot import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.page.overview import overview
from dev.kafka import Broker, BrokerSettings
from tests.integration.airflow.conftest import (
    Context,
    Publish,
    Resolve,
    Run,
    fails_with,
    recreate,
    sasl,
    use_connection,
)
from tests.integration.airflow.retention import Watch, deleted_at_ms, keep_for, log_start, remember_growth, store, timed
from tests.integration.airflow.windows.conftest import Increment, increment
from tests.integration.conftest import USERS
from tests.integration.kafka_clients import connect

__all__ = ["increment"]  # a fixture, that pytest finds here
HOUR_MS = 3_600_000
DAY = {"retention.ms": str(24 * HOUR_MS)}
SIZE_LIMIT = 1_500_000
BY_SIZE = {"retention.ms": "-1", "retention.bytes": str(SIZE_LIMIT), "segment.bytes": str(2**20)}

MakeTopic = Callable[..., str]
Write = Callable[[str, Iterable[int]], None]


@pytest.fixture(scope="module")
def deleting() -> Iterator[Broker]:
    """A broker that looks five times a second what it can delete, and where alice may not describe the cluster."""
    properties = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "0"}
    with Broker(BrokerSettings(name="deleting", properties=properties, users=USERS)) as running:
        yield running


@pytest.fixture(scope="module")
def admin(deleting: Broker) -> Iterator[KafkaAdminClient]:
    with closing(connect(KafkaAdminClient, bootstrap_servers=deleting.bootstrap_servers)) as client:
        cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
        client.create_acls([ACL("User:operator", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, cluster)])
        yield client


@pytest.fixture(scope="module")
def client(deleting: Broker) -> Iterator[OffsetsClient]:
    with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": deleting.bootstrap_servers})) as connected:
        yield connected


@pytest.fixture(autouse=True)
def connection(deleting: Broker, ledger_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": deleting.bootstrap_servers})


@pytest.fixture
def topic(admin: KafkaAdminClient) -> MakeTopic:
    def make(config: Mapping[str, str], partitions: int = 1) -> str:
        name = f"watched-{os.urandom(3).hex()}"
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config)}
        admin.create_topics({name: options}, wait_for_metadata=True)
        return name

    return make


@pytest.fixture
def write(deleting: Broker) -> Write:
    """Write records of 100,000 bytes with these timestamps to partition 0."""

    def send(topic: str, stamps_ms: Iterable[int]) -> None:
        with closing(connect(KafkaProducer, bootstrap_servers=deleting.bootstrap_servers)) as producer:
            for each in stamps_ms:
                producer.send(topic, partition=0, key=b"k", value=b"x" * 100_000, timestamp_ms=each)

    return send


@pytest.fixture
def watch(context: Context) -> Watch:
    def run(kafka_conn_id: str = "kafka_default", **arguments: Any) -> list[dict[str, Any]]:
        pipeline = KafkaPipeline("loads", kafka_conn_id=kafka_conn_id)
        operator = KafkaRetentionWatchOperator(task_id="watch", pipeline=pipeline, **arguments)
        found: list[dict[str, Any]] = operator.execute(context)["windows"]
        return found

    return run


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


class TestBacklog:
    def test_without_windows_it_starts_at_the_newest_snapshot(
        self, topic: MakeTopic, write: Write, watch: Watch, context: Context
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms] * 3)
        KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", name)).execute(context)
        write(name, [at_ms + 1] * 2)
        (backlog,) = watch()
        assert (backlog["offsets"], backlog["loses_at"]) == (2, iso_instant(at_ms + 1 + 24 * HOUR_MS))

    def test_records_of_an_open_transaction_belong_to_it(
        self, topic: MakeTopic, watch: Watch, context: Context, deleting: Broker
    ) -> None:
        """E13: the last stable offset stands still, and retention doesn't wait for it."""
        name, at_ms = topic(DAY), now_ms()
        KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", name)).execute(context)
        options = {"bootstrap_servers": deleting.bootstrap_servers, "transactional_id": name}
        with closing(KafkaProducer(**options)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(name, partition=0, value=b"x", timestamp_ms=at_ms).get(10)
            (backlog,) = watch()
            producer.abort_transaction()
        assert (backlog["offsets"], backlog["loses_at"]) == (1, iso_instant(at_ms + 24 * HOUR_MS))

    def test_of_a_topic_that_has_begun_anew_it_has_all(
        self,
        topic: MakeTopic,
        write: Write,
        increment: Increment,
        watch: Watch,
        admin: KafkaAdminClient,
        run: Run,
    ) -> None:
        """S16: by a restart; what was left of the old one nobody can load."""
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms] * 3)
        increment(name, "run-1")
        recreate(admin, name)
        write(name, [at_ms + 1] * 2)
        assert run("ledger", "restart", "loads")[0] == 0
        assert [(each["window"], each["offsets"]) for each in watch()] == [("backlog", 2)]

    def test_partitions_that_were_added_belong_to_it_from_their_start(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, admin: KafkaAdminClient, deleting: Broker
    ) -> None:
        """E23"""
        name, at_ms = topic(DAY), now_ms()
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        admin.create_partitions({name: 2})
        with closing(connect(KafkaProducer, bootstrap_servers=deleting.bootstrap_servers)) as producer:
            producer.send(name, partition=1, value=b"x", timestamp_ms=at_ms)
        (backlog,) = watch()
        assert (backlog["partition"], backlog["offsets"]) == (1, 1)


class TestABackfillBeforeWhatIsPublished:
    """Watch, page and verification go by one rule: from the first window that is known."""

    def test_page_watch_and_verification_say_from_when_on_records_are_not_loaded_and_what_no_window_has(
        self, topic: MakeTopic, write: Write, resolve: Resolve, publish: Publish, watch: Watch, ledger: Ledger
    ) -> None:
        """A record for each hour. Hours 0 and 3 are pinned, 8 is published, and no window has 1, 2 and 4 to 7."""
        name, first_ms = topic(DAY), now_ms() - 12 * HOUR_MS
        hours = [first_ms + hour * HOUR_MS for hour in range(11)]
        write(name, hours)
        windows = {hour: resolve(name, iso_instant(hours[hour]), iso_instant(hours[hour + 1])) for hour in (8, 0, 3)}
        publish(windows[8])
        self.agree(ledger, watch(), hours[0], {hours[1]: 2, hours[4]: 4}, [windows[0], windows[3]])
        publish(windows[0])
        self.agree(ledger, watch(), hours[1], {hours[1]: 2, hours[4]: 4}, [windows[3]])

    @staticmethod
    def agree(
        ledger: Ledger, told: list[dict[str, Any]], since_ms: int, holes: dict[int, int], late: list[dict[str, Any]]
    ) -> None:
        """All three say it.

        :param told: what the watch says.
        :param holes: for each hole's start, how many offsets it has.
        """
        ledger.read()
        shown, claims = overview(ledger), verify(ledger)
        losses = [parse_instant(each["loses_at"]) for each in told]
        assert (shown["unloaded_from_ms"], shown["unloaded_from_ms"] + shown["retention_ms"]) == (since_ms, min(losses))
        assert shown["holes"] == [claim.found for claim in claims if claim.claim == "hole" and not claim.holds]
        missing = {each["window"]: each["offsets"] for each in told if each["window"].startswith("hole")}
        assert missing == {f"hole from {iso_instant(start_ms)}": count for start_ms, count in holes.items()}
        names = [each["window"] for each in late]
        assert [each["window"] for each in told if each["window"][0].isdigit()] == names
        assert all(name in "".join(claim.found for claim in claims if not claim.window) for name in names)

    def test_a_hole_of_which_nothing_is_left_is_no_longer_watched(
        self,
        topic: MakeTopic,
        write: Write,
        resolve: Resolve,
        publish: Publish,
        watch: Watch,
        admin: KafkaAdminClient,
    ) -> None:
        name, first_ms = topic(DAY), now_ms() - 12 * HOUR_MS
        hours = [first_ms + hour * HOUR_MS for hour in range(5)]
        write(name, hours)
        for hour in (0, 3):
            publish(resolve(name, iso_instant(hours[hour]), iso_instant(hours[hour + 1])))
        for deleted, lost in ((2, [1]), (3, [])):
            admin.delete_records({TopicPartition(name, 0): deleted})
            assert [each["lost"] for each in watch() if each["window"] != "backlog"] == lost


class TestLost:
    """E9, E10"""

    def test_what_is_gone_is_counted_and_fails_the_task_if_it_was_asked_to(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, admin: KafkaAdminClient
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        admin.delete_records({TopicPartition(name, 0): 3})
        (window,) = watch()
        assert (window["lost"], window["offsets"]) == (3, 10)
        assert window["loses_at"] == iso_instant(at_ms - 7 + 24 * HOUR_MS)
        with pytest.raises(AirflowFailException, match=rf"have lost records.*{name}-0 \(3 of 10 offsets gone; next"):
            watch(fail_within=timedelta(minutes=5))

    def test_what_goes_within_the_time_fails_the_task_and_what_goes_later_does_not(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        assert len(watch(fail_within=timedelta(hours=23))) == 1
        with pytest.raises(AirflowFailException, match=r"within 24 hours: .*by time not before .* Load them now"):
            watch(fail_within=timedelta(hours=24))

    def test_a_topic_that_was_recreated_has_lost_all_of_it(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, admin: KafkaAdminClient
    ) -> None:
        """E24, S16"""
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        recreate(admin, name)
        with pytest.raises(AirflowFailException, match="was re-created") as failed:
            watch()
        assert fails_with(TopicChangedError, failed)


class TestTruncated:
    """S15: a log that ends before what is pinned has lost its end, and that is no backlog of nothing."""

    def test_below_the_end_of_what_is_stored_fails_the_task(
        self, topic: MakeTopic, write: Write, watch: Watch, client: OffsetsClient, ledger: Ledger
    ) -> None:
        name = topic(DAY)
        write(name, [now_ms()] * 2)
        store(client, ledger, name, 3)
        with pytest.raises(
            AirflowFailException, match=rf"{name}-0 now ends at 2, before offset 3 of the snapshot"
        ) as failed:
            watch()
        assert fails_with(LogTruncatedError, failed)


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
