"""Idle, empty and added partitions, and topics that are several, added, found by a pattern, or not there any more."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, TopicChangedError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.pipelines.log_changes import lost_of_each
from tests.integration.airflow.conftest import Commit, Context, Publish, Resolve, Run, at, fails_with, recreate
from tests.integration.airflow.windows.conftest import (
    DeleteBefore,
    Increment,
    XCom,
    evidence,
    manifest_of,
    ranges,
    stamped,
)
from tests.integration.client.cases.workload import new_name
from tests.integration.conftest import MakeTopic, Produce
from tests.patience import wait_until


def named_ranges(window: XCom) -> dict[str, tuple[int, int]]:
    """Start and end by topic, for topics of one partition each."""
    return {each.topic: (each.start_offset, each.end_offset) for each in manifest_of(window).ranges}


class TestIdle:
    def test_a_partition_that_is_idle_at_both_ends_stands_still_and_says_why(
        self, topic: MakeTopic, produce: Produce, resolve: Resolve
    ) -> None:
        """S4, S5, S6, E1, E2: its end is the log's, and so is the next start; what comes late is in the window after.

        The third partition never had a record.
        """
        name = topic(partitions=3)
        produce(name, 0, stamped(*range(10)))
        produce(name, 1, stamped(0))
        first, second = resolve(name, at(0), at(5)), resolve(name, at(5), at(8))
        assert (ranges(first), ranges(second)) == ([(0, 0, 5), (1, 0, 1), (2, 0, 0)], [(0, 5, 8), (1, 1, 1), (2, 0, 0)])
        assert evidence(second) == [("matched", "matched"), ("log_end", "log_end"), ("log_end", "log_end")]
        produce(name, 1, stamped(3))
        produce(name, 2, stamped(9))
        assert ranges(resolve(name, at(8), at(20))) == [(0, 8, 10), (1, 1, 2), (2, 0, 1)]

    def test_both_ends_have_the_same_partitions(self, topic: MakeTopic, produce: Produce, resolve: Resolve) -> None:
        """S19: no key is missing, and no offset is one of Kafka's sentinels."""
        name = topic(partitions=2)
        produce(name, 1, stamped(0))
        found = ranges(resolve(name, at(0), at(5)))
        assert [partition for partition, _, _ in found] == [0, 1]
        assert all(0 <= start <= end for _, start, end in found)


class TestAddedPartition:
    def test_before_the_first_window_is_one_as_any(
        self, ten: str, admin: KafkaAdminClient, produce: Produce, resolve: Resolve
    ) -> None:
        """E23, S18: a window before its first record is empty there."""
        admin.create_partitions({ten: 2})
        produce(ten, 1, stamped(7))
        assert ranges(resolve(ten, at(0), at(5))) == [(0, 0, 5), (1, 0, 0)]
        assert ranges(resolve(ten, at(5), at(10))) == [(0, 5, 10), (1, 0, 1)]

    def test_between_resolve_and_run_leaves_the_window_as_it_is(
        self,
        ten: str,
        admin: KafkaAdminClient,
        produce: Produce,
        resolve: Resolve,
        client: OffsetsClient,
    ) -> None:
        """S17: the run reads what was pinned; all of the new partition is in the next window."""
        window = resolve(ten, at(0), at(10))
        admin.create_partitions({ten: 2})
        produce(ten, 1, stamped(3, 12))
        assert returned(lost_of_each(client, {0: manifest_of(window)})[0]) == ()
        assert resolve(ten, at(0), at(10)) == window
        following = resolve(ten, at(10), at(20))
        assert (ranges(following), evidence(following)[1][0]) == ([(0, 10, 10), (1, 0, 2)], "new_partition")

    def test_is_in_no_window_of_a_backfill_over_the_time_before_it(
        self, ten: str, admin: KafkaAdminClient, produce: Produce, resolve: Resolve
    ) -> None:
        """S18, E23: the first live window after it was added has its records, however old; none is in two."""
        resolve(ten, at(5), at(8))
        admin.create_partitions({ten: 2})
        produce(ten, 1, stamped(1, 9))
        live, backfill = resolve(ten, at(8), at(20)), resolve(ten, at(0), at(5))
        assert (ranges(live), ranges(backfill)) == ([(0, 8, 10), (1, 0, 2)], [(0, 0, 5)])

    def test_whose_first_records_are_gone_already_has_them_and_its_load_says_how_many(
        self,
        ten: str,
        admin: KafkaAdminClient,
        produce: Produce,
        resolve: Resolve,
        delete_before: DeleteBefore,
        client: OffsetsClient,
    ) -> None:
        """S17, E9: a range doesn't depend on how late it is resolved."""
        resolve(ten, at(0), at(5))
        admin.create_partitions({ten: 2})
        produce(ten, 1, stamped(6, 7, 8))
        delete_before(ten, 2, partition=1)
        window = resolve(ten, at(5), at(20))
        assert ranges(window) == [(0, 5, 10), (1, 0, 3)]
        assert returned(lost_of_each(client, {0: manifest_of(window)}, "load_rest")[0]) == (LogRange(ten, 1, 0, 2),)


class TestSeveralTopics:
    def test_are_one_window(self, ten: str, topic: MakeTopic, produce: Produce, resolve: Resolve) -> None:
        """S20, E40: also where one is named twice."""
        other = topic()
        produce(other, 0, stamped(1, 3, 30))
        window = resolve([ten, other, ten], at(2), at(7))
        assert named_ranges(window) == {ten: (2, 7), other: (1, 2)}
        assert (window["offsets"], window["partitions"]) == (6, 2)

    def test_one_that_is_added_begins_at_its_log_start(
        self, ten: str, topic: MakeTopic, produce: Produce, resolve: Resolve
    ) -> None:
        """E23, S17: all of it."""
        resolve(ten, at(0), at(5))
        other = topic()
        produce(other, 0, stamped(1, 2, 3, 4))
        window = resolve([ten, other], at(5), at(20))
        assert named_ranges(window) == {ten: (5, 10), other: (0, 4)}
        assert [str(each.start_evidence) for each in manifest_of(window).ranges if each.topic == other] == [
            "new_partition"
        ]
        assert resolve([ten, other], at(5), at(20)) == window, "what is pinned stays as it is"

    def test_one_that_is_added_is_in_no_window_of_the_time_before(
        self, ten: str, topic: MakeTopic, produce: Produce, resolve: Resolve
    ) -> None:
        """S18: its first live window has all of it."""
        resolve(ten, at(5), at(8))
        other = topic()
        produce(other, 0, stamped(1))
        assert named_ranges(resolve([ten, other], at(8), at(20)))[other] == (0, 1)
        assert list(named_ranges(resolve([ten, other], at(0), at(5)))) == [ten]

    def test_one_that_is_left_out_later_is_refused(self, ten: str, topic: MakeTopic, resolve: Resolve) -> None:
        """Its records would be in no window, or in two once it is named again."""
        other = topic()
        resolve([ten, other], at(0), at(5))
        with pytest.raises(AirflowFailException, match=rf"{other} since .*: name all") as failed:
            resolve(ten, at(5), at(8))
        assert fails_with(ConfigurationError, failed)


class TestPattern:
    @pytest.fixture
    def prefix(self) -> str:
        return new_name("sensor")

    @pytest.fixture
    def make(self, admin: KafkaAdminClient, produce: Produce) -> Any:
        """Make a topic with two records."""

        def make(name: str) -> str:
            options = {"num_partitions": 1, "replication_factor": 1}
            admin.create_topics({name: options}, wait_for_metadata=True)
            produce(name, 0, stamped(1, 2))
            return name

        return make

    def test_takes_in_whole_names_and_those_of_new_topics(self, prefix: str, make: Any, resolve: Resolve) -> None:
        """S20, E23: a topic that is new begins at its log start."""
        one, _ = make(f"{prefix}.a"), make(f"not-{prefix}.a")
        pattern = rf"{prefix}\.\w"
        assert named_ranges(resolve(None, at(0), at(2), topic_pattern=pattern)) == {one: (0, 1)}
        two, _ = make(f"{prefix}.b"), make(f"{prefix}.bb")
        second = resolve(None, at(2), at(5), topic_pattern=pattern)
        assert named_ranges(second) == {one: (1, 2), two: (0, 2)}

    def test_leaves_out_kafkas_own_topics(self, ten: str, commit: Commit, resolve: Resolve, prefix: str) -> None:
        """S20: Spark would leave them out, and the two would differ."""
        commit(prefix, ten, 1)  # so that there is a topic of offsets
        window = resolve(None, at(2), at(7), topic_pattern=f"__.*|{ten}")
        assert named_ranges(window) == {ten: (2, 7)}

    def test_that_nothing_matches_is_an_error(self, prefix: str, resolve: Resolve, ledger: Ledger) -> None:
        with pytest.raises(AirflowFailException, match=rf"Of the topics .* none matches '{prefix}'") as failed:
            resolve(None, at(0), at(2), topic_pattern=prefix)
        assert fails_with(ConfigurationError, failed)
        assert not ledger.exists

    def test_misses_a_topic_that_is_gone(
        self, prefix: str, make: Any, admin: KafkaAdminClient, resolve: Resolve
    ) -> None:
        """E24: one that was there isn't taken for one that never was, whether it came first or later."""
        pattern = rf"{prefix}\.."
        first = make(f"{prefix}.a")
        resolve(None, at(0), at(2), topic_pattern=pattern)
        later, _ = make(f"{prefix}.b"), make(f"{prefix}.c")
        resolve(None, at(2), at(5), topic_pattern=pattern)
        for gone in (later, first):
            admin.delete_topics([gone])
            wait_until(lambda name=gone: name not in admin.list_topics(), "the broker knows that the topic is gone")
            with pytest.raises(AirflowFailException, match=rf"has covered .*{gone}.* since") as failed:
                resolve(None, at(5), at(8), topic_pattern=pattern)
            assert fails_with(ConfigurationError, failed)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"topic": "t", "topic_pattern": "t.*"}, "exactly one of them"),
            ({"topic": None}, "exactly one of them"),
            ({"topic": None, "topic_pattern": "t("}, "not a regular expression"),
        ],
        ids=["both", "neither", "malformed"],
    )
    def test_that_is_wrong_fails_at_once(self, resolve: Resolve, arguments: dict[str, Any], message: str) -> None:
        """When the pipeline is made, unless other tasks don't need its topics."""
        with pytest.raises((AirflowFailException, ConfigurationError), match=message) as failed:
            resolve(start=at(0), end=at(2), **arguments)
        assert isinstance(failed.value, ConfigurationError) or fails_with(ConfigurationError, failed)


class TestMadeAgain:
    def test_the_next_window_is_told_how_to_go_on(
        self, ten: str, resolve: Resolve, publish: Publish, admin: KafkaAdminClient, produce: Produce, run: Run
    ) -> None:
        """E24, S16: a restart says what was left unloaded of the old topic, and the next window begins the new one."""
        publish(resolve(ten, at(0), at(4)))
        recreate(admin, ten)
        with pytest.raises(AirflowFailException, match=f"Topic {ten} was re-created") as failed:
            resolve(ten, at(4), at(8))
        assert fails_with(TopicChangedError, failed)
        assert "Run kafka-offsets ledger restart" in str(failed.value)
        produce(ten, 0, stamped(5, 6))
        assert run("ledger", "restart", "loads")[0] == 0
        now = now_ms()
        window = resolve(ten, iso_instant(now - 2), iso_instant(now - 1))
        assert named_ranges(window)[ten][1] == 2

    def test_the_window_across_it_has_all_of_the_new_topic_and_verify_shows_the_seam(
        self,
        ten: str,
        resolve: Resolve,
        publish: Publish,
        increment: Increment,
        admin: KafkaAdminClient,
        produce: Produce,
        run: Run,
        context: Context,
    ) -> None:
        first = increment(ten, "run-1")
        publish(first)
        produce(ten, 0, stamped(60))
        recreate(admin, ten)
        assert run("ledger", "restart", "loads")[0] == 0
        produce(ten, 0, stamped(61, 62))
        second = increment(ten, "run-2")
        assert ranges(second) == [(0, 0, 2)]
        publish(second)
        report = KafkaVerifyWindowOperator(task_id="v", window=second).execute(context)
        assert f"{ten} began anew" in report["tiling"]
