"""Records that are deleted, compacted away, late or not visible yet: what look-ups by time and lag make of them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from kafka import KafkaProducer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import (
    HOUR_MS,
    T0,
    connected_client,
    delete_records,
    new_compacted_topic,
    new_topic,
    produce,
    records,
)
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S

READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def outcome_at(client: OffsetsClient, topic: str, timestamp_ms: int, **options: IsolationLevel) -> ListOutcome:
    (found,) = client.list_offsets([TopicPartition(topic, 0)], OffsetSpec.at(timestamp_ms), **options)
    return found.outcome


def offset_at(client: OffsetsClient, topic: str, spec: OffsetSpec) -> int | None:
    (found,) = client.list_offsets([TopicPartition(topic, 0)], spec).raise_for_errors()
    return found.offset


class TestLookUpBehindDeletedSegments:
    """A segment before the log start that isn't removed yet hides records from look-ups by time (Kafka 4.3.0)."""

    @pytest.fixture
    def trimmed(self, cluster: KafkaCluster, client: OffsetsClient) -> TopicPartition:
        """T0 + 5 s in a segment of its own; in the next one a day later, T0 - 1 ms, T0, T0 + 5 s. Two are deleted."""
        topic = new_topic(cluster, config={"retention.ms": "-1", "segment.ms": str(HOUR_MS)})
        produce(cluster, topic, timestamps=[T0 + 5_000, T0 + 24 * HOUR_MS, T0 - 1, T0, T0 + 5_000])
        delete_records(cluster, {TopicPartition(topic, 0): 2})
        return TopicPartition(topic, 0)

    @pytest.mark.parametrize("level", list(IsolationLevel))
    def test_the_record_is_found_all_the_same(
        self, client: OffsetsClient, trimmed: TopicPartition, level: IsolationLevel
    ) -> None:
        (found,) = client.list_offsets([trimmed], OffsetSpec.at(T0), isolation_level=level)
        assert (found.outcome, found.offset, found.timestamp_ms) == (ListOutcome.FOUND, 3, T0)

    def test_a_survey_from_before_the_newest_record_does_not_hide_it(
        self, cluster: KafkaCluster, client: OffsetsClient, trimmed: TopicPartition
    ) -> None:
        """E1, E2: a long backfill has one survey, and a busy log a newest record behind the end that it saw."""
        survey = client.survey([trimmed.topic])
        produce(cluster, trimmed.topic, timestamps=[T0 + 48 * HOUR_MS])
        (found,) = client.look_up(survey, [T0])[T0]
        assert found.offset == 3

    def test_where_there_is_none_it_says_so(self, client: OffsetsClient, trimmed: TopicPartition) -> None:
        assert outcome_at(client, trimmed.topic, T0 + 5_001) is ListOutcome.ALL_OLDER


class TestCompaction:
    def test_keeps_the_answer_of_a_time_look_up_on_a_record_that_exists(
        self, cluster: KafkaCluster, client: OffsetsClient
    ) -> None:
        """E11: the record at the instant is gone; the answer is the next one that is not older."""
        topic = new_compacted_topic(cluster)
        kept = {each.offset: each.timestamp for each in records(cluster, topic)}
        (found,) = client.list_offsets([TopicPartition(topic, 0)], OffsetSpec.at(T0 + 2 * HOUR_MS))
        assert found.offset is not None
        assert kept[found.offset] == found.timestamp_ms
        assert found.timestamp_ms >= T0 + 2 * HOUR_MS


class TestRecordsThatArriveMeanwhile:
    def test_are_never_before_the_end_and_missed_by_the_look_up(self, cluster: KafkaCluster) -> None:
        """E2: the end is asked first, so that it is at or before every record that the look-up could not see.

        A slow network leaves 40 ms between the two, in which records of the instant arrive.
        """
        topic = new_topic(cluster, replicas=[[1]])
        boundaries: list[tuple[int, int, bool]] = []
        with connected_client(cluster.brokers[0].proxied_bootstrap_servers) as client, producing(cluster, topic):
            client.survey([topic])
            cluster.proxies[0].latency(20)
            for ahead_ms in itertools.islice(itertools.cycle(range(0, 240, 20)), 24):
                instant = int(time.time() * 1000) + ahead_ms
                boundaries.append((instant, *boundary(client, topic, instant, READ_UNCOMMITTED)))
        found = records(cluster, topic)
        for instant, offset, _ in boundaries:
            at_or_after = [each.offset for each in found if each.timestamp >= instant]
            assert offset <= min(at_or_after, default=len(found))
        assert {matched for _, _, matched in boundaries} == {True, False}, "both ways to a boundary were taken"


def boundary(
    client: OffsetsClient, topic: str, instant: int, level: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> tuple[int, bool]:
    """Where a window starts that starts at the instant: its first record, or else the end. And which of the two."""
    survey = client.survey([topic])
    (listed,) = client.look_up(survey, [instant], isolation_level=level)[instant]
    (extent,) = survey.extents
    assert extent.high_watermark is not None
    return (extent.high_watermark, False) if listed.offset is None else (listed.offset, True)


@contextmanager
def producing(cluster: KafkaCluster, topic: str) -> Iterator[None]:
    """A record every few milliseconds, stamped with its own time."""
    stop = threading.Event()

    def produce_until_stopped() -> None:
        with closing(connect(KafkaProducer, bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)) as producer:
            while not stop.wait(0.003):
                producer.send(topic, b"value", partition=0).get(timeout=PATIENCE_S)

    thread = threading.Thread(target=produce_until_stopped, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)


class TestTimestamps:
    def test_late_records_move_a_boundary_that_is_resolved_again(
        self, cluster: KafkaCluster, client: OffsetsClient
    ) -> None:
        """E3: which is why the end is pinned: asked again, the boundary would jump over the late record."""
        topic = new_topic(cluster)
        produce(cluster, topic, timestamps=[T0, T0 + 1])
        assert boundary(client, topic, T0 + 5_000) == (2, False)
        produce(cluster, topic, timestamps=[T0 + 2, T0 + 6_000])
        assert offset_at(client, topic, OffsetSpec.at(T0 + 5_000)) == 3
