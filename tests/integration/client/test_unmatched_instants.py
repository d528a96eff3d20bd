"""Instants without a record, when the leader can't be asked why: that is an error, and never "no record" (E1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.pipelines.resolver import Resolver
from tests.integration.client.error_codes.codes import UNSUPPORTED_VERSION, Code, each_of
from tests.integration.client.pieces import A0, Pieces
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import batches_are, configs_are, offsets_are, silence

T0 = 1_795_240_800_000
INSTANT = OffsetSpec.at(T0)
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
STAYS = ((-1, "UNKNOWN_SERVER_ERROR"), (29, "TOPIC_AUTHORIZATION_FAILED"))


def nothing_at_the_instant(besides: Callable[[int], Answer | None] = lambda _: None) -> Answer:
    """A ListOffsets answer of a log from 0 to 5, whose leader knows no record at or after the instant.

    :param besides: another answer, by the number on the wire that is asked for.
    """
    usual = {LATEST: offsets_are(5), EARLIEST: offsets_are(0), MAX_TIMESTAMP: offsets_are(4, timestamp=T0 - 1)}

    def answer(request: Any) -> Any:
        asked = request.topics[0].partitions[0].timestamp
        return (besides(asked) or usual.get(asked) or offsets_are(-1))(request)

    return answer


class TestWhyThereIsNoRecord:
    @pytest.mark.parametrize("failing", [MAX_TIMESTAMP, EARLIEST, LATEST], ids=["newest", "start", "end"])
    @each_of(*STAYS)
    def test_that_could_not_be_asked_is_an_error(self, one: Pieces, code: Code, failing: int) -> None:
        """Kafka's "no record" may be wrong, and what would have shown it is missing."""
        failed = offsets_are(0, errors={A0: code.code})
        one.broker.on(ListOffsetsRequest, nothing_at_the_instant(lambda asked: failed if asked == failing else None))
        (listed,) = one.client.list_offsets([A0], INSTANT)
        assert listed.outcome is ListOutcome.ERROR
        assert listed.error is not None
        assert listed.error.name == code.name

    def test_stays_open_where_the_broker_is_too_old_to_be_asked(self, one: Pieces) -> None:
        """Before Kafka 3.0 there is no newest timestamp."""
        refused = offsets_are(0, errors={A0: UNSUPPORTED_VERSION})
        one.broker.on(
            ListOffsetsRequest, nothing_at_the_instant(lambda asked: refused if asked == MAX_TIMESTAMP else None)
        )
        assert [each.outcome for each in one.client.list_offsets([A0], INSTANT)] == [ListOutcome.NO_RECORD]

    def test_is_known_of_an_empty_log_without_its_newest_record(self, one: Pieces) -> None:
        failed = offsets_are(0, errors={A0: -1})
        answers = {MAX_TIMESTAMP: failed, LATEST: offsets_are(0)}
        one.broker.on(ListOffsetsRequest, nothing_at_the_instant(answers.get))
        assert [each.outcome for each in one.client.list_offsets([A0], INSTANT)] == [ListOutcome.EMPTY_LOG]

    def test_no_log_end_is_stored_for_it(self, one: Pieces, tmp_path: Path) -> None:
        """An instant is resolved once: its window would lack the records of this partition for good."""
        failed = offsets_are(0, errors={A0: -1})
        one.broker.on(
            ListOffsetsRequest, nothing_at_the_instant(lambda asked: failed if asked == MAX_TIMESTAMP else None)
        )
        one.broker.on(DescribeConfigsRequest, configs_are({}))
        ledger = Ledger(ObjectStoragePath(f"file://{tmp_path}"), "loads")
        resolver = Resolver(one.client, ledger, ["a"], IsolationLevel.READ_COMMITTED)
        past = T0 - 300 * 86_400_000
        with pytest.raises(OffsetsError, match="a-0: UNKNOWN_SERVER_ERROR"):
            resolver.snapshot(AsOf(AsOfKind.INSTANT, past))
        assert ledger.read().snapshots == {}


def test_a_leader_that_hangs_leaves_time_to_ask_the_others_why() -> None:
    """E29"""
    with ScriptedCluster({"a": [0], "b": [1]}, brokers=2) as cluster:
        cluster.brokers[0].on(ListOffsetsRequest, nothing_at_the_instant())
        cluster.brokers[1].on(ListOffsetsRequest, silence)
        client = cluster.client(timeout_s=3)
        idle, hung = client.list_offsets(client.partitions_of(["a", "b"]), INSTANT)
        assert (idle.outcome, idle.error) == (ListOutcome.ALL_OLDER, None)
        assert hung.error is not None
        assert hung.error.name == "REQUEST_TIMED_OUT"


def test_a_leader_that_hangs_over_why_leaves_time_to_look_again_at_what_is_contradicted() -> None:
    """Its newest record is late enough, so that "no record" can't be true (E29)."""
    late = offsets_are(4, timestamp=T0)
    left = [offsets_are(-1), late]

    def contradicted(asked: int) -> Answer | None:
        if asked == T0:
            return left.pop(0)
        return late if asked == MAX_TIMESTAMP else None

    with ScriptedCluster({"a": [0], "b": [1]}, brokers=2) as cluster:
        cluster.brokers[0].on(ListOffsetsRequest, nothing_at_the_instant(contradicted))
        cluster.brokers[1].on(ListOffsetsRequest, offsets_are(-1), silence)
        client = cluster.client(timeout_s=4)
        found, hung = client.list_offsets(client.partitions_of(["a", "b"]), INSTANT)
        assert (found.outcome, found.offset) == (ListOutcome.FOUND, 4)
        assert hung.error is not None
        assert hung.error.name == "REQUEST_TIMED_OUT"


def test_a_leader_that_hangs_over_what_is_contradicted_leaves_time_to_read_the_other_logs() -> None:
    """E29"""
    late = offsets_are(4, timestamp=T0)
    instants = itertools.chain([offsets_are(-1)], itertools.repeat(silence))
    with ScriptedCluster({"a": [0], "b": [1]}, brokers=2) as cluster:
        cluster.brokers[0].on(ListOffsetsRequest, nothing_at_the_instant({MAX_TIMESTAMP: late}.get))
        cluster.brokers[0].on(FetchRequest, batches_are({}, end=5))
        cluster.brokers[1].on(
            ListOffsetsRequest,
            nothing_at_the_instant(lambda asked: next(instants) if asked == T0 else {MAX_TIMESTAMP: late}.get(asked)),
        )
        client = cluster.client(timeout_s=4)
        read, hung = client.list_offsets(client.partitions_of(["a", "b"]), INSTANT)
        assert (read.outcome, read.error) == (ListOutcome.ALL_OLDER, None)
        assert hung.error is not None
        assert hung.error.name == "REQUEST_TIMED_OUT"
