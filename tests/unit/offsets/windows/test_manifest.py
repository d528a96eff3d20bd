"""Windows between two snapshots, and their manifest: as a file, and what it says of the logs that are read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.errors import ConfigurationError, IntervalError, LedgerCorruptError, TopicChangedError
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import (
    Manifest,
    ends_seen,
    left_of,
    ranges_between,
    starts_seen,
    unknowable,
)
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot
from tests.unit.offsets.builders import HOUR_MS, LEDGER_ID, T0, snapshot
from tests.unit.spark.manifests import manifest_of


def start(offsets: dict[int, int]) -> OffsetSnapshot:
    return snapshot(offsets, at_ms=T0)


def end(offsets: dict[int, int], log_start: int = 0) -> OffsetSnapshot:
    return snapshot(offsets, at_ms=T0 + HOUR_MS, log_start=log_start)


def in_epoch(made: OffsetSnapshot, leader_epoch: int | None) -> OffsetSnapshot:
    boundaries = {key: replace(each, leader_epoch=leader_epoch) for key, each in made.boundaries.items()}
    return replace(made, boundaries=boundaries)


def manifest(first: dict[int, int], last: dict[int, int]) -> Manifest:
    return Manifest.of("loads", LEDGER_ID, start(first), end(last))


class TestWindow:
    def test_a_range_runs_from_start_inclusive_to_end_exclusive(self) -> None:
        """S1."""
        ranges = ranges_between(start({0: 10, 1: 5}), end({0: 30, 1: 5}))
        assert [(each.start_offset, each.end_offset, each.span) for each in ranges] == [(10, 30, 20), (5, 5, 0)]

    def test_its_name_is_its_two_instants(self) -> None:
        assert manifest({0: 1}, {0: 2}).window == "20261121T060000000Z_20261121T070000000Z"

    def test_a_new_partition_of_a_known_topic_starts_with_its_first_record(self) -> None:
        """S17, E23: whatever retention has deleted of it since, which a load tells."""
        added = ranges_between(start({0: 10}), end({0: 30, 1: 8}, log_start=3))[1]
        assert (added.start_offset, added.end_offset, added.start_evidence) == (0, 8, Evidence.NEW_PARTITION)

    def test_a_new_topic_starts_at_its_log_start(self) -> None:
        """What it had before belongs to no window of this pipeline."""
        (added,) = ranges_between(start({0: 10}).without({"t"}), end({0: 8}, log_start=3))
        assert (added.start_offset, added.end_offset, added.start_evidence) == (3, 8, Evidence.NEW_PARTITION)

    def test_a_range_knows_the_leader_epochs_of_its_start_and_end(self) -> None:
        """S15: by one a log is told that was cut before the end was resolved; by the other, one that is cut later."""
        first, last = in_epoch(start({0: 10}), 4), in_epoch(end({0: 30, 1: 8}), 6)
        known = [(each.start_leader_epoch, each.end_leader_epoch) for each in ranges_between(first, last)]
        assert known == [(4, 6), (None, 6)]

    def test_records_that_were_gone_when_the_end_was_resolved_are_in_it(self) -> None:
        """E9: a range is what two snapshots say, and what is lost of it is a fact of an attempt."""
        (found,) = ranges_between(start({0: 10}), end({0: 30}, log_start=15))
        assert (found.start_offset, found.end_offset) == (10, 30)

    def test_what_is_not_of_one_chain_makes_none(self) -> None:
        """E15, S9: it is inverted in time, or in offsets; lacks a partition; or is of another isolation level."""
        with pytest.raises(IntervalError, match="end after its start"):
            ranges_between(end({0: 1}), start({0: 2}))
        with pytest.raises(IntervalError, match="t-0 would start at offset 9 and end at 5"):
            ranges_between(start({0: 9}), end({0: 5}))
        with pytest.raises(TopicChangedError):
            ranges_between(start({0: 1, 1: 1}), end({0: 2}))
        other = replace(end({0: 2}), isolation_level=IsolationLevel.READ_UNCOMMITTED)
        with pytest.raises(ConfigurationError, match="isolation"):
            ranges_between(start({0: 1}), other)


class TestManifest:
    @given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**6)), min_size=1, max_size=20))
    def test_it_reads_back_as_it_was_written(self, ranges: list[tuple[int, int]]) -> None:
        first = {n: each[0] for n, each in enumerate(ranges)}
        pinned = manifest(first, {n: each[0] + each[1] for n, each in enumerate(ranges)})
        content = pinned.to_bytes()
        assert Manifest.from_bytes(content, pinned.sha256) == pinned
        assert Manifest.from_bytes(content).to_bytes() == content

    def test_a_change_after_hashing_is_refused(self) -> None:
        pinned = manifest({0: 1}, {0: 2})
        tampered = pinned.to_bytes().replace(b'["t",0,1,2,', b'["t",0,1,3,')
        assert tampered != pinned.to_bytes()
        with pytest.raises(LedgerCorruptError, match="changed after it was pinned"):
            Manifest.from_bytes(tampered, pinned.sha256)

    @pytest.mark.parametrize("content", [b"", b"5", b"null", b'"x"', b"[]", b"{}", b'{"format":1}', b'{"format":9}'])
    def test_something_else_is_refused_by_name(self, content: bytes) -> None:
        with pytest.raises(LedgerCorruptError, match="not a manifest"):
            Manifest.from_bytes(content)

    @pytest.mark.parametrize(
        ("field", "name"),
        [
            ("pipeline", "../other"),
            ("pipeline", "p'); DROP TABLE lake.flights; --"),
            ("ledger_id", "0' OR '1'='1"),
            ("ledger_id", ""),
            ("window", "20261121T050000000Z/../.."),
            ("window", "x' = 'x"),
        ],
    )
    def test_what_is_more_than_a_name_is_refused(self, field: str, name: str) -> None:
        """Names become folders, SQL and table properties."""
        fields = json.loads(manifest_of([("t", 0, 0, 5)]).to_bytes())
        assert Manifest.from_bytes(json.dumps(fields).encode()).pipeline == "flights"
        with pytest.raises(LedgerCorruptError, match=field):
            Manifest.from_bytes(json.dumps(fields | {field: name}).encode())

    def test_only_ranges_that_hold_something_are_read(self) -> None:
        """S6: empty ranges are kept, and not read."""
        pinned = manifest({0: 1, 1: 5}, {0: 2, 1: 5})
        assert len(pinned.ranges) == 2
        assert [each.partition for each in pinned.non_empty()] == [0]


def test_the_title_of_a_snapshot_is_right_for_whatever_it_is_as_of() -> None:
    whats = [AsOf(AsOfKind.INSTANT, T0), AsOf(AsOfKind.LATEST), AsOf(AsOfKind.GROUP, group="loader")]
    assert [replace(snapshot({}), as_of=what).title for what in whats] == [
        "the snapshot as of 2026-11-21T06:00:00.000Z",
        "the snapshot as of latest",
        "the snapshot as of group loader",
    ]


class TestBegunAnew:
    def test_a_log_that_was_truncated_goes_on_from_there(self) -> None:
        """S15: what was before that is as it was; what comes after it takes the place of what was lost."""
        known = start({0: 10, 1: 20})
        cut = known.begun_anew(["t"], [SeenOffset("t", 0, 7, 3), SeenOffset("t", 1, 25, 3)], None)
        assert {key.partition: (each.offset, each.leader_epoch) for key, each in cut.boundaries.items()} == {
            0: (7, 3),
            1: (20, 1),
        }

    def test_a_topic_that_was_made_anew_has_no_offsets_any_more(self) -> None:
        anew = start({0: 10}).begun_anew(["t"], [], None)
        assert (dict(anew.boundaries), dict(anew.topics)) == ({}, {})

    def test_offsets_go_on_on_the_cluster_that_has_taken_the_other_ones_place(self) -> None:
        moved = start({0: 10}).begun_anew(["t"], [], "cluster-2")
        (found,) = ranges_between(moved, replace(end({0: 4}, log_start=1), cluster_id="cluster-2"))
        assert (found.start_offset, found.end_offset) == (1, 4)


WINDOW = manifest_of([("flights", 0, 10, 20), ("flights", 1, 7, 7), ("flights", 2, 0, 5), ("weather", 0, 3, 9)])
STARTS = st.dictionaries(
    st.sampled_from([("flights", 0), ("flights", 1), ("flights", 2), ("weather", 0)]), st.integers(0, 25)
)


def offsets(ranges: list[LogRange]) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, number) for each in ranges for number in range(*each[2:])]


@given(STARTS)
def test_read_and_lost_are_the_window_with_no_offset_twice(log_starts: dict[tuple[str, int], int]) -> None:
    """Whatever retention has taken at the start of logs."""
    lost = [LogRange(*key, 0, start) for key, start in log_starts.items()]
    left = list(left_of(WINDOW, lost))
    whole, gone = offsets([each.log_range for each in WINDOW.ranges]), set(offsets(lost))
    assert offsets(left) == [each for each in whole if each not in gone]
    assert all(each.span > 0 for each in left)


def pinned(start: int | None, end: int | None, *, start_offset: int = 10) -> Manifest:
    """A window of one partition, up to offset 30, by the leader epochs of its start and end."""
    made = manifest_of([("t", 0, start_offset, 30)])
    ranges = tuple(replace(each, start_leader_epoch=start, end_leader_epoch=end) for each in made.ranges)
    topics = {topic: replace(each, topic_id="id") for topic, each in made.topics.items()}
    return replace(made, ranges=ranges, topics=topics)


class TestWhatIsAskedOfLogs:
    @pytest.mark.parametrize(
        ("start", "end", "asked"),
        [
            pytest.param(3, 3, False, id="within an epoch nothing is cut"),
            pytest.param(4, 3, False, id="what is as it was at the end's epoch was so at the start's"),
            pytest.param(3, 4, True, id="it may have been cut between the two"),
            pytest.param(3, None, True, id="the end says nothing"),
            pytest.param(None, 3, False, id="it isn't known"),
        ],
    )
    def test_is_asked_for_where_the_end_does_not_speak_for_it(
        self, start: int | None, end: int | None, asked: bool
    ) -> None:
        manifest = pinned(start, end)
        assert starts_seen(manifest) == ([SeenOffset("t", 0, 10, 3)] if asked else [])
        assert ends_seen(manifest) == [SeenOffset("t", 0, 30, end)]


class TestUnknowable:
    @pytest.mark.parametrize(("start", "end"), [(None, 3), (3, None), (None, None)])
    def test_is_a_partition_of_which_one_bound_has_no_epoch(self, start: int | None, end: int | None) -> None:
        assert unknowable(pinned(start, end)) == ["the leader epochs of 1 partitions"]

    def test_is_not_the_start_of_a_whole_log_of_which_nothing_can_be_cut(self) -> None:
        assert unknowable(pinned(None, 3, start_offset=0)) == []
