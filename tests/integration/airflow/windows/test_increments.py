"""Increments: what has come since the last run, in the order in which runs resolve, each of them once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import DataLossError, InstantError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.snapshot_log import SnapshotLog
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot
from airflow_kafka_offsets.pipelines.window_pinner import WindowPinner
from tests.integration.airflow.conftest import Publish, Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import DeleteBefore, Increment, XCom, manifest_of, ranges, stamped
from tests.integration.conftest import Produce
from tests.integration.ledger.loads import windows_of


def offsets_of(windows: list[XCom]) -> Counter[int]:
    """How often each offset of partition 0 is in some windows."""
    return Counter(offset for each in windows for _, start, end in ranges(each) for offset in range(start, end))


def dies(*_: Any, **__: Any) -> NoReturn:
    raise OSError("the worker died")


def dies_before_an_increment(append: Callable[..., Any]) -> Callable[..., Any]:
    """A worker that stores snapshots, but no increment."""

    def store(log: SnapshotLog, snapshots: Sequence[OffsetSnapshot], **told: Any) -> Any:
        if snapshots[0].as_of.kind is AsOfKind.INCREMENT:
            dies()
        return append(log, snapshots, **told)

    return store


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

    def test_begins_where_the_last_window_of_the_ledger_ends(
        self, ten: str, resolve: Resolve, increment: Increment
    ) -> None:
        """S2: whatever since= says; a pipeline of scheduled windows goes on as one of increments."""
        resolve(ten, at(5), at(8))
        resolve(ten, at(0), at(5))
        assert ranges(increment(ten, "run-1", since="earliest")) == [(0, 8, 10)]

    @pytest.mark.parametrize("gone", [0, 3], ids=["the same again", "refused"])
    def test_begins_there_too_when_that_window_was_resolved_again(
        self, ten: str, resolve: Resolve, increment: Increment, delete_before: DeleteBefore, ledger: Ledger, gone: int
    ) -> None:
        """S2, S23: the snapshot that it was made from is forgotten then, though the window stays as it is."""
        resolve(ten, at(0), at(5))
        delete_before(ten, gone)
        with suppress(AirflowFailException):
            resolve(ten, at(0), at(5), re_resolve=True)
        first = increment(ten, "run-1")
        assert (ranges(first), increment(ten, "run-1")) == ([(0, 5, 10)], first)
        assert ranges(increment(ten, "run-2")) == [(0, 10, 10)]
        assert [claim.found for claim in verify(ledger) if not claim.holds] == []

    def test_begins_there_too_when_it_is_resolved_again_before_the_increment_is_pinned(
        self, ten: str, resolve: Resolve, increment: Increment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolve(ten, at(0), at(5))
        with monkeypatch.context() as dying:
            dying.setattr(WindowPinner, "pin_between", dies)
            with pytest.raises(OSError, match="died"):
                increment(ten, "run-1")
        resolve(ten, at(0), at(5), re_resolve=True)
        assert ranges(increment(ten, "run-1")) == [(0, 5, 10)]

    @pytest.mark.parametrize(
        ("since", "expected"),
        [("earliest", (0, 13)), ("latest", (10, 13)), (at(4), (4, 13))],
        ids=["earliest", "latest", "an instant"],
    )
    def test_begins_there_still_if_the_worker_died_before_it_was_stored(
        self,
        ten: str,
        increment: Increment,
        produce: Produce,
        ledger: Ledger,
        monkeypatch: pytest.MonkeyPatch,
        since: str,
        expected: tuple[int, int],
    ) -> None:
        """S21: what came between the two tries is in the increment."""
        with monkeypatch.context() as dying:
            dying.setattr(SnapshotLog, "append", dies_before_an_increment(SnapshotLog.append))
            with pytest.raises(OSError, match="died"):
                increment(ten, "run-1", since=since)
        produce(ten, 0, stamped(60, 61, 62))
        assert ranges(increment(ten, "run-1", since=since)) == [(0, *expected)]
        assert len(ledger.snapshots.entries()) == 2

    def test_that_is_not_pinned_yet_is_followed_without_another_snapshot(
        self, ten: str, increment: Increment, produce: Produce, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as dying:
            dying.setattr(WindowPinner, "pin_between", dies)
            with pytest.raises(OSError, match="died"):
                increment(ten, "run-1", since="latest")
        produce(ten, 0, stamped(60))
        assert ranges(increment(ten, "run-2", since="latest")) == [(0, 10, 11)]
        assert [entry.kind for entry in ledger.snapshots.entries()] == ["latest", "increment", "increment"]

    def test_of_an_instant_in_the_future_is_refused(self, ten: str, increment: Increment, ledger: Ledger) -> None:
        """E36"""
        with pytest.raises(AirflowFailException, match="future") as failed:
            increment(ten, "run-1", since="2999-01-01T00:00:00Z")
        assert fails_with(InstantError, failed)
        assert windows_of(ledger) == []


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

    def test_take_no_window_of_the_past_for_the_last_one(
        self, ten: str, resolve: Resolve, increment: Increment, produce: Produce
    ) -> None:
        """S2: a backfill after an increment moves no increment."""
        increment(ten, "run-1")
        resolve(ten, at(0), at(5), on_overlap="allow")
        produce(ten, 0, stamped(60))
        assert ranges(increment(ten, "run-2")) == [(0, 10, 11)]

    def test_that_lost_records_fail_until_the_user_takes_the_loss(
        self, ten: str, increment: Increment, produce: Produce, delete_before: DeleteBefore
    ) -> None:
        """E9, S12: the next try is about the same increment, so that its loss is counted once."""
        increment(ten, "run-1")
        produce(ten, 0, stamped(*range(60, 65)))
        delete_before(ten, 12)
        with pytest.raises(AirflowFailException, match="2 offsets between") as failed:
            increment(ten, "run-2")
        assert fails_with(DataLossError, failed)
        produce(ten, 0, stamped(70))
        taken = increment(ten, "run-2", on_data_loss="load_rest")
        assert (ranges(taken), taken["lost"]) == ([(0, 12, 15)], 2)
        assert ranges(increment(ten, "run-3")) == [(0, 15, 16)]
        assert manifest_of(taken).ranges[0].window_start == 10

    def test_are_not_resolved_anew(self, ten: str, increment: Increment, produce: Produce, run: Run) -> None:
        """S2, S23: what stands at their ends is no instant, so that looking it up would tear them from the next one."""
        first = increment(ten, "run-1")
        produce(ten, 0, stamped(60))
        increment(ten, "run-2")
        code, _, err = run("ledger", "re-resolve", "loads", first["window"])
        assert code == 2
        assert f"Window {first['window']} is an increment" in err
        assert ranges(increment(ten, "run-1")) == [(0, 0, 10)]

    def test_that_are_forgotten_get_their_own_again(
        self, ten: str, increment: Increment, produce: Produce, run: Run
    ) -> None:
        """S21: also the first one, which starts at an instant; only windows between instants are resolved anew."""
        first = increment(ten, "run-1", since=at(4))
        produce(ten, 0, stamped(60))
        (row,) = json.loads(run("ledger", "forget", "loads", first["window"], "-o", "json")[1])
        assert row["instants"] == "none", "no window shares them, and they aren't taken for shared"
        again = increment(ten, "run-1", since=at(4))
        assert (again["revision"], ranges(again)) == (2, [(0, 4, 10)])


class TestVerified:
    """``ledger verify`` of increments without a window."""

    def orphans(self, ledger: Ledger) -> list[tuple[bool, str]]:
        return [(each.holds, each.found) for each in verify(ledger) if each.claim == "orphans"]

    def test_one_that_was_never_pinned_is_a_fault(
        self, ten: str, increment: Increment, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WindowPinner, "pin_between", dies)
        with pytest.raises(OSError, match="died"):
            increment(ten, "run-1")
        ((holds, found),) = self.orphans(ledger)
        assert not holds
        assert "was never pinned: clear the run" in found

    def test_one_that_was_taken_back_was_never_pinned(
        self, ten: str, resolve: Resolve, increment: Increment, ledger: Ledger
    ) -> None:
        """Another task's window that overlaps it was seen only after its manifest had been created."""
        folder = ledger.window_folders.newest(increment(ten, "run-1")["window"])
        (place,) = Path(folder.manifest_uri.removeprefix("file://")).parent.glob("manifest.sha256")
        place.unlink()
        assert ledger.window_folders.take_back(folder, "it overlaps another window")
        ((holds, found),) = self.orphans(ledger)
        assert not holds
        assert "was never pinned" in found

    def test_one_that_was_forgotten_is_told_beside_the_hole_that_it_leaves(
        self, ten: str, increment: Increment, produce: Produce, publish: Publish, run: Run, ledger: Ledger
    ) -> None:
        windows = []
        for number in range(3):
            produce(ten, 0, stamped(60 + number))
            windows.append(increment(ten, f"run-{number}"))
        publish(windows[0])
        run("ledger", "forget", "loads", windows[1]["window"])
        ((holds, found),) = self.orphans(ledger)
        assert holds
        assert "was forgotten: its records are in no window" in found
        assert run("ledger", "verify", "loads")[0] == 1
        increment(ten, "run-1")
        assert self.orphans(ledger) == []
