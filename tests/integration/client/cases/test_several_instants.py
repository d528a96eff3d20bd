"""Several instants looked up at once, with one survey: the same answers as one by one, in fewer requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.client.lookups.instant_lookup import Survey
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import (
    HOUR_MS,
    T0,
    delete_records,
    new_topic,
    produce,
    send,
    transactional_producer,
)

HOURLY, EMPTY, IDLE, TRIMMED, UNDECIDED = range(5)
INSTANTS = [T0 + hour * HOUR_MS for hour in range(-1, 5)]


@pytest.fixture(scope="module")
def topic(running_cluster: KafkaCluster) -> Iterator[str]:
    """A partition of each kind, on three leaders; the first segment of ``TRIMMED`` is deleted and not yet removed."""
    name = new_topic(
        running_cluster,
        replicas=[[1], [2], [3], [1], [2]],
        config={"retention.ms": "-1", "segment.ms": str(3 * HOUR_MS)},
    )
    produce(running_cluster, name, HOURLY, timestamps=[T0 + hour * HOUR_MS + 1 for hour in range(4)])
    produce(running_cluster, name, IDLE, timestamps=[T0, T0 + HOUR_MS])
    produce(running_cluster, name, TRIMMED, timestamps=[T0 + HOUR_MS, T0 + 5 * HOUR_MS, T0 - 1, T0, T0 + HOUR_MS])
    produce(running_cluster, name, UNDECIDED, timestamps=[T0])
    delete_records(running_cluster, {TopicPartition(name, TRIMMED): 2})
    with transactional_producer(running_cluster) as producer:
        send(producer, name, UNDECIDED, timestamps=[T0 + 2 * HOUR_MS])
        yield name


@pytest.fixture
def survey(client: OffsetsClient, topic: str) -> Survey:
    return client.survey([topic])


class TestSeveralInstants:
    @pytest.mark.parametrize("level", list(IsolationLevel))
    def test_are_answered_as_each_of_them_alone(
        self, client: OffsetsClient, survey: Survey, level: IsolationLevel
    ) -> None:
        """E1, E2: matched, empty, idle, deleted and not yet visible."""
        together = client.look_up(survey, INSTANTS, isolation_level=level)
        assert list(together) == INSTANTS
        for instant, listed in together.items():
            partitions = survey.extents.partitions()
            assert listed == client.list_offsets(partitions, OffsetSpec.at(instant), isolation_level=level)

    def test_have_an_answer_of_every_kind(self, client: OffsetsClient, survey: Survey) -> None:
        """E1: what a broker says of the deleted segment contradicts its newest timestamp, and the log is read."""
        found = client.look_up(survey, [T0, T0 + 2 * HOUR_MS])
        first, later = ([(each.outcome, each.offset) for each in listed] for listed in found.values())
        assert first == [
            (ListOutcome.FOUND, 0),
            (ListOutcome.EMPTY_LOG, None),
            (ListOutcome.FOUND, 0),
            (ListOutcome.FOUND, 3),
            (ListOutcome.FOUND, 0),
        ]
        assert later == [
            (ListOutcome.FOUND, 2),
            (ListOutcome.EMPTY_LOG, None),
            (ListOutcome.ALL_OLDER, None),
            (ListOutcome.ALL_OLDER, None),
            (ListOutcome.NOT_VISIBLE, None),
        ]

    def test_that_are_none_ask_nothing(self, client: OffsetsClient, survey: Survey) -> None:
        assert client.look_up(survey, []) == {}
