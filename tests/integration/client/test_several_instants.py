"""Several instants at once: which requests are sent for them, and what a leader that hangs costs."""

from __future__ import annotations

import time

from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.client.lookups.instant_lookup import Survey
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import offsets_are
from tests.patience import GRACE_S

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
SURVEY = Survey("scripted", {}, LogExtents(LogExtent(*key, 0, 9, 9) for key in (A0, A1)))
INSTANTS = [1_795_240_800_000 + number for number in range(10)]
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


def asked(request: object) -> int:
    """The number on the wire that a request asks for."""
    return int(request.topics[0].partitions[0].timestamp)  # type: ignore[attr-defined]


class TestSeveralInstants:
    def test_ask_once_why_there_is_no_record(self) -> None:
        """E1: after all look-ups, and only of partitions without a record: the newest timestamp, and then the ends."""
        with ScriptedCluster({"a": [0, 1]}, brokers=2) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5, timestamp=INSTANTS[-1]))
            cluster.brokers[1].on(ListOffsetsRequest, offsets_are(-1))
            cluster.client().look_up(SURVEY, INSTANTS)
            first, second = (list(map(asked, cluster.requests(ListOffsetsRequest, node))) for node in range(2))
            assert sorted(first) == INSTANTS
            assert sorted(second[:10]) == INSTANTS
            assert second[10:] == [MAX_TIMESTAMP, EARLIEST, LATEST, LATEST]

    def test_wait_in_line_at_a_leader_that_hangs_and_cost_others_nothing(self) -> None:
        """E29: four requests are under way to it at a time."""
        with ScriptedCluster({"a": [0, 1]}, brokers=2) as cluster:
            arrived: list[float] = []
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5, timestamp=INSTANTS[-1]))
            cluster.brokers[1].on(ListOffsetsRequest, lambda _: arrived.append(time.monotonic()))
            started = time.monotonic()
            found = cluster.client(timeout_s=4).look_up(SURVEY, INSTANTS)
            assert time.monotonic() - started < 4 + GRACE_S
            assert [each.ok().partitions() for each in found.values()] == [[A0]] * len(INSTANTS)
            assert {each.error.name for listed in found.values() for each in listed if each.error} == {
                "REQUEST_TIMED_OUT"
            }
            first, fourth = arrived[0], arrived[3]
            assert all(at - fourth > fourth - first for at in arrived[4:]), "others come once these are given up"

    def test_are_not_asked_where_the_log_could_not_be_asked_before(self) -> None:
        """E26: whatever is the matter with it, there is no end for "no record"; the others are answered at once."""
        with ScriptedCluster({"a": [0, -1]}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5, timestamp=INSTANTS[-1]))
            client = cluster.client(timeout_s=3)
            survey = client.survey(["a"])
            cluster.asked.clear()
            for listed in cluster.given_time(client).look_up(survey, INSTANTS).values():
                good, bad = listed
                assert good.offset == 5
                assert bad.error is not None
                assert bad.error.name == "LEADER_NOT_AVAILABLE"
            assert len(cluster.asked) == len(INSTANTS)
