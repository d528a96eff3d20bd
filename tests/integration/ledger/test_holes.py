"""Holes among windows that overlap each other (``on_overlap="allow"``): what one of them has isn't missing."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.forgetting import forget_instants, forget_windows
from airflow_kafka_offsets.ledger.holes import Surroundings
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from tests.integration.ledger.loads import publish
from tests.unit.offsets.builders import HOUR_MS, T0, boundary, snapshot

MINUTE_MS = HOUR_MS // 60


class Minutes:
    """A ledger of a log that has a record a minute."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(UPath(folder), "loads")
        self.ledger.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)

    def pin(self, start: int, end: int, *, published: bool = False) -> PinnedManifest:
        ends = [snapshot({0: 1000 + each}, at_ms=T0 + each * MINUTE_MS) for each in (start, end)]
        pinned = pin_window(self.ledger, *self.ledger.snapshots.append(ends), on_overlap="allow")
        if published:
            publish(self.ledger, pinned)
        return pinned

    def around(self, pinned: PinnedManifest) -> Surroundings:
        return Surroundings(self.ledger, pinned.manifest)


@pytest.fixture
def log(tmp_path: Path) -> Minutes:
    return Minutes(tmp_path)


def gaps(found: Any) -> list[tuple[int, int]]:
    return [(gap.end_offset, gap.start_offset) for part in found.unpinned for gap in part.gaps]


def test_a_pinned_window_within_a_longer_one_ends_no_row(log: Minutes) -> None:
    log.pin(0, 10, published=True)
    log.pin(10, 60)
    log.pin(20, 30)
    found = log.around(log.pin(60, 70, published=True)).before()
    assert found is not None
    assert (len(found.pinned), found.unpinned) == (2, ())


def test_what_lies_behind_the_longer_one_is_missing(log: Minutes) -> None:
    log.pin(0, 10, published=True)
    log.pin(10, 60)
    log.pin(20, 30)
    found = log.around(log.pin(65, 70, published=True)).before()
    assert gaps(found) == [(1060, 1065)]


def test_what_a_published_window_has_that_reaches_into_this_one_is_not_missing(log: Minutes) -> None:
    log.pin(0, 10, published=True)
    log.pin(10, 60, published=True)
    late = log.around(log.pin(50, 70, published=True))
    assert late.before() is None
    assert late.since({TopicPartition("t", 0): 1000}) == []


def test_nor_what_one_has_that_reaches_into_the_earlier_one(log: Minutes) -> None:
    early = log.pin(0, 20, published=True)
    log.pin(10, 60, published=True)
    log.pin(60, 70, published=True)
    assert log.around(early).after() is None


def test_what_it_leaves_is(log: Minutes) -> None:
    log.pin(0, 10, published=True)
    log.pin(30, 60, published=True)
    found = log.around(log.pin(50, 70, published=True)).before()
    assert gaps(found) == [(1010, 1030)]


def test_a_pinned_window_that_reaches_into_this_one_is_being_loaded(log: Minutes) -> None:
    log.pin(0, 10, published=True)
    straddles = log.pin(10, 60)
    found = log.around(log.pin(50, 70, published=True)).before()
    assert found is not None
    assert (found.pinned, found.unpinned) == ((straddles.manifest.window,), ())


def test_a_reader_that_has_not_begun_has_all_of_it_ahead(log: Minutes) -> None:
    log.pin(0, 10, published=True)
    window = log.around(log.pin(20, 30, published=True))
    assert [gaps(each) for each in window.since({})] == [[(1010, 1020)]]
    assert window.since({TopicPartition("t", 0): 1020}) == []


def test_before_the_first_window_a_reader_that_has_begun_would_miss_what_lies_ahead_of_it(log: Minutes) -> None:
    window = log.around(log.pin(50, 80, published=True))
    assert [gaps(each) for each in window.since({TopicPartition("t", 0): 1020})] == [[(1020, 1050)]]
    assert window.since({TopicPartition("t", 0): 1050}) == []
    assert window.since({}) == []


def test_what_is_pinned_there_is_told_as_such(log: Minutes) -> None:
    pinned = log.pin(20, 50)
    (found,) = log.around(log.pin(50, 80, published=True)).since({TopicPartition("t", 0): 1020})
    assert (found.pinned, found.unpinned) == ((pinned.manifest.window,), ())


def test_a_reader_that_has_not_begun_begins_with_the_first_window_that_is_pinned(log: Minutes) -> None:
    """The newest of several runs that go on side by side is the first to be loaded."""
    earlier = [log.pin(start, start + 10) for start in (20, 30)]
    window = log.around(log.pin(50, 80, published=True))
    (found,) = window.since({})
    assert (list(found.pinned), found.unpinned) == ([each.manifest.window for each in earlier], ())
    assert window.since({TopicPartition("t", 0): 1050}) == []
    for each in earlier:
        publish(log.ledger, each)
    assert log.around(log.pin(80, 90, published=True)).since({TopicPartition("t", 0): 1050}) == []


@pytest.mark.parametrize(("log_start", "missing"), [(0, 10), (4, 6), (10, 0)])
def test_a_topic_that_joined_in_time_without_a_window_has_a_hole_from_its_log_start(
    log: Minutes, log_start: int, missing: int
) -> None:
    log.pin(0, 10, published=True)
    log.ledger.create_or_check(["t", "u"], "cluster-1", IsolationLevel.READ_COMMITTED)
    pair = [_with_a_second_topic(minute, at, log_start) for minute, at in ((20, 10), (30, 15))]
    later = pin_window(log.ledger, *log.ledger.snapshots.append(pair))
    found = log.around(later).before()
    sizes = [] if found is None else [gap.size for gap in found.whole.gaps]
    assert sizes == [missing] * bool(missing)


def _with_a_second_topic(minute: int, offset: int, log_start: int) -> OffsetSnapshot:
    """The first topic has no record since minute 10."""
    one = snapshot({0: 1010}, at_ms=T0 + minute * MINUTE_MS)
    return _with_another_topic(one, offset, log_start)


class TestResolvedAnewAndNotLoaded:
    """A window is published as it was, has late records in its next revision, and the window after it begins where that
    ends: they meet in time, and not in offsets."""

    def test_a_group_is_not_moved_past_what_is_in_neither(self, log: Minutes) -> None:
        newest, next_one = resolved_anew(log, later=1015)
        (found,) = log.around(next_one).since({TopicPartition("t", 0): 1010})
        assert (str(found.whole.gaps[0]), found.pinned, found.unpinned) == (
            "t-0: gap of 5 offsets between 1010 and 1015",
            (newest.manifest.window,),
            (),
        )
        assert log.around(next_one).since({TopicPartition("t", 0): 1015}) == []

    def test_nor_by_a_window_further_on(self, log: Minutes) -> None:
        resolved_anew(log, later=1015)
        last = log.pin(20, 30, published=True)
        assert log.around(last).before() is None
        (found,) = log.around(last).since({TopicPartition("t", 0): 1010})
        assert [gap.size for gap in found.whole.gaps] == [5]

    def test_a_topic_that_was_added_in_between_is_missed_too(self, log: Minutes) -> None:
        newest, next_one = resolved_anew(log, added=50)
        assert log.around(next_one).before() is not None
        (found,) = log.around(next_one).since({TopicPartition("t", 0): 1010})
        assert (str(found.whole.gaps[0]), found.pinned) == (
            "u-0: gap of 50 offsets between 0 and 50",
            (newest.manifest.window,),
        )
        (tiling,) = [claim for claim in verify(log.ledger) if claim.claim == "tiling"]
        assert (tiling.holds, "u-0: gap of 50 offsets" in tiling.found) == (False, True)
        with pytest.raises(LedgerConflictError, match="u-0: gap of 50 offsets"):
            log.ledger.file_lists.between(None, None)

    def test_once_it_is_loaded_nothing_is_missed(self, log: Minutes) -> None:
        newest, next_one = resolved_anew(log, later=1015, added=50)
        publish(log.ledger, newest, "a-2")
        assert log.around(next_one).before() is None
        assert log.around(next_one).since({TopicPartition("t", 0): 1010}) == []
        assert [claim.found for claim in verify(log.ledger) if not claim.holds] == []

    def test_verified_windows_in_checkpoints_are_known_to_meet(self, log: Minutes, tmp_path: Path) -> None:
        """A group that has not begun goes through all windows, of which only those are read that may not meet."""
        pinned = [log.pin(start, start + 10, published=True) for start in range(0, 100, 10)]
        for window in pinned:
            judged = judge(window.manifest, log.ledger.window_folders.of(window).result("a-1"))
            log.ledger.window_folders.of(window).record_verified("a-1", judged)
        verify(log.ledger)
        for window in pinned[1:-1]:
            (Path(window.uri.removeprefix("file://"))).unlink()
        assert log.around(pinned[-1]).since({}) == []


def resolved_anew(
    log: Minutes, *, later: int = 1010, added: int | None = None
) -> tuple[PinnedManifest, PinnedManifest]:
    """The newest revision of the first ten minutes, which is pinned, and the next ten minutes, which are published.

    :param later: where the first window ends now.
    :param added: where it ends on a topic that it didn't have.
    """
    first = log.pin(0, 10, published=True).manifest.window
    forget_instants(log.ledger, [first])
    ends = [snapshot({0: offset}, at_ms=T0 + at * MINUTE_MS) for at, offset in ((0, 1000), (10, later), (20, 1020))]
    if added is not None:
        log.ledger.create_or_check(["t", "u"], "cluster-1", IsolationLevel.READ_COMMITTED)
        ends[1:] = [_with_another_topic(end, added) for end in ends[1:]]
    start, middle, end = log.ledger.snapshots.append(ends, revising=[first])
    newest, next_one = pin_window(log.ledger, start, middle), pin_window(log.ledger, middle, end)
    publish(log.ledger, next_one)
    return newest, next_one


def _with_another_topic(one: OffsetSnapshot, offset: int, log_start: int = 0) -> OffsetSnapshot:
    facts = TopicFacts("u", "id-2", 1, "delete", -1, -1, "CreateTime")
    other = boundary(0, offset, log_start=log_start, topic="u")
    return replace(one, topics={**one.topics, "u": facts}, boundaries={**one.boundaries, TopicPartition("u", 0): other})


@pytest.mark.parametrize("left", ["a folder", "one taken back"])
def test_a_window_that_is_not_pinned_yet_or_was_taken_back_keeps_no_group_from_beginning(
    log: Minutes, left: str
) -> None:
    """What there is between the folder and the manifest, and between a taking back and its marker."""
    if left == "a folder":
        name = window_id(T0, T0 + 10 * MINUTE_MS)
        Path(log.ledger.window_folders.folder(name, 1)._folder.path).mkdir(parents=True)
    else:
        taken = Path(log.pin(0, 10).uri.removeprefix("file://"))
        (taken.parent / "manifest.sha256").write_text("taken back: for a test")
    assert log.around(log.pin(20, 30, published=True)).since({}) == []


def test_around_a_window_that_was_forgotten_meanwhile_that_is_the_error(log: Minutes) -> None:
    log.pin(0, 10, published=True)
    looked_at = log.pin(20, 30, published=True)
    forget_windows(log.ledger, [looked_at.manifest.window], "for a test")
    with pytest.raises(LedgerCorruptError, match=f"has no window {looked_at.manifest.window}"):
        log.around(looked_at).before()


@pytest.mark.nightly("a thousand windows; the others have a few")
def test_of_a_row_of_many_windows_the_manifests_are_not_kept(log: Minutes) -> None:
    pinned = [log.pin(each, each + 10, published=True) for each in range(0, 200, 10)]
    around = log.around(pinned[-1])
    before = _manifests()
    assert around.since({}) == []
    assert _manifests() - before <= 2


def _manifests() -> int:
    gc.collect()
    return sum(type(each) is Manifest for each in gc.get_objects())  # others may answer isinstance by an import
