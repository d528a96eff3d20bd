"""Increments: what has come since the last run, in the order in which runs resolve, each of them once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import InstantError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from dev.kafka import Broker
from tests.integration.airflow.conftest import Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import DeleteBefore, Increment, Snapshot, XCom, ranges, stamped
from tests.integration.conftest import Produce


def offsets_of(windows: list[XCom]) -> Counter[int]:
    """How often each offset of partition 0 is in some windows."""
    return Counter(offset for each in windows for _, start, end in ranges(each) for offset in range(start, end))


class TestFirst:
    @pytest.mark.parametrize(
        ("since", "expected"),
        [("earliest", (0, 10)), ("latest", (10, 10)), (at(4), (4, 10)), (at(60), (10, 10))],
        ids=["earliest", "latest", "an instant", "an instant after all records"],
    )
    def test_begins_where_the_user_says(
        self, ten: str, increment: Increment, since: str, expected: tuple[int, int]
    ) -> None:
        """E1: an instant without a record after it is the log's end."""
        assert ranges(increment(ten, "run-1", since=since)) == [(0, *expected)]

    def test_begins_at_the_commits_of_a_group_which_has_loaded_what_is_before(
        self, ten: str, increment: Increment, produce: Produce, broker: Broker
    ) -> None:
        with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
            client.commit_offsets("connect-a", CommittedOffsets([CommittedOffset(ten, 0, 7)])).raise_for_errors()
        assert ranges(increment(ten, "run-1", since="group connect-a")) == [(0, 7, 10)]
        produce(ten, 0, stamped(60))
        assert ranges(increment(ten, "run-2", since="group connect-a")) == [(0, 10, 11)]

    def test_asks_for_commits_only_to_begin(self, ten: str, increment: Increment, run: Run, broker: Broker) -> None:
        """E18: the group may have gone, once the ledger knows where it was."""
        with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
            client.commit_offsets("connect-b", CommittedOffsets([CommittedOffset(ten, 0, 7)])).raise_for_errors()
        first = increment(ten, "run-1", since="group connect-b")
        assert run("ledger", "void", "loads", first["window"])[0] == 0
        assert ranges(increment(ten, "run-2", since="group nobody")) == [(0, 7, 10)]

    @pytest.mark.parametrize(
        ("since", "expected"), [("earliest", (0, 12)), ("latest", (12, 12)), (at(4), (4, 12)), (at(7), (7, 12))]
    )
    def test_begins_there_also_among_the_snapshots_of_others(
        self,
        ten: str,
        increment: Increment,
        snapshot: Snapshot,
        produce: Produce,
        since: str,
        expected: tuple[int, int],
    ) -> None:
        snapshot(ten, at=at(5))
        snapshot(ten)
        produce(ten, 0, stamped(60, 61))
        found = increment(ten, "run-1", since=since)
        assert ranges(found) == [(0, *expected)]
        assert increment(ten, "run-1", since=since) == found

    def test_begins_where_the_last_window_of_the_ledger_ends(
        self, ten: str, resolve: Resolve, increment: Increment
    ) -> None:
        """S2: whatever since= says; a pipeline of scheduled windows goes on as one of increments."""
        resolve(ten, at(5), at(8))
        resolve(ten, at(0), at(5))
        assert ranges(increment(ten, "run-1", since="earliest")) == [(0, 8, 10)]


class TestRuns:
    def test_follow_each_other(self, ten: str, increment: Increment, produce: Produce) -> None:
        """S2, S6: an increment of nothing is an empty window."""
        found = [increment(ten, "run-1")]
        produce(ten, 0, stamped(3, 60))
        found += [increment(ten, "run-2"), increment(ten, "run-3")]
        assert [ranges(each)[0][1:] for each in found] == [(0, 10), (10, 12), (12, 12)]

    def test_get_their_own_again_when_they_are_tried_again_or_cleared(
        self, ten: str, increment: Increment, produce: Produce
    ) -> None:
        """S21, S23: also after a later run."""
        first = increment(ten, "run-1")
        produce(ten, 0, stamped(60))
        assert increment(ten, "run-1") == first
        second = increment(ten, "run-2")
        assert [increment(ten, "run-1"), increment(ten, "run-2")] == [first, second]

    def test_side_by_side_tile(self, ten: str, increment: Increment, produce: Produce) -> None:
        """S2: while records come in, and though each run asks Kafka before it knows of the others."""

        def run(number: int) -> XCom:
            produce(ten, 0, stamped(number))
            return increment(ten, f"run-{number}")

        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(run, range(4)))
        found.append(increment(ten, "last"))
        assert offsets_of(found) == Counter(range(14))

    @pytest.mark.parametrize("since", ["earliest", at(4)])
    def test_have_no_window_before_the_first_one(
        self, ten: str, increment: Increment, resolve: Resolve, produce: Produce, since: str
    ) -> None:
        """S2: what counts of older records is in the first one. It moves no later one."""
        increment(ten, "run-1", since=since)
        with pytest.raises(AirflowFailException, match="before the pipeline's origin") as failed:
            resolve(ten, at(0), at(3))
        assert fails_with(InstantError, failed)
        produce(ten, 0, stamped(60))
        assert ranges(increment(ten, "run-2")) == [(0, 10, 11)]

    def test_that_lost_records_have_them_and_their_load_says_so(
        self, ten: str, increment: Increment, produce: Produce, delete_before: DeleteBefore
    ) -> None:
        """E9, S12: a range never changes; what Kafka no longer has is a matter of the load."""
        increment(ten, "run-1")
        produce(ten, 0, stamped(*range(60, 65)))
        delete_before(ten, 12)
        assert ranges(increment(ten, "run-2")) == [(0, 10, 15)]
        produce(ten, 0, stamped(70))
        assert ranges(increment(ten, "run-3")) == [(0, 15, 16)]

    def test_that_are_voided_are_made_anew_from_where_they_began(
        self, ten: str, increment: Increment, produce: Produce, run: Run
    ) -> None:
        """S21: also the first one, which starts at the pipeline's origin."""
        first = increment(ten, "run-1", since=at(4))
        produce(ten, 0, stamped(60))
        assert run("ledger", "void", "loads", first["window"])[0] == 0
        assert ranges(increment(ten, "run-1", since=at(4))) == [(0, 4, 11)]
