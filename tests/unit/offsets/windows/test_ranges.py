"""Windows and their manifest."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    IntervalError,
    LedgerCorruptError,
    TopicChangedError,
)
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import ranges_between
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot
from tests.unit.offsets.builders import HOUR_MS, LEDGER_ID, T0, snapshot


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
        pinned = Manifest.of("loads", LEDGER_ID, first, last)
        assert Manifest.from_bytes(pinned.to_bytes()) == pinned

    def test_records_that_were_gone_when_the_end_was_resolved_are_in_it(self) -> None:
        """E9: a range is what two snapshots say, and what is lost of it is a fact of an attempt."""
        (found,) = ranges_between(start({0: 10}), end({0: 30}, log_start=15))
        assert (found.start_offset, found.end_offset) == (10, 30)

    def test_an_empty_or_inverted_window_is_refused(self) -> None:
        with pytest.raises(IntervalError, match="end after its start"):
            window_id(T0, T0)
        with pytest.raises(IntervalError, match="end after its start"):
            ranges_between(end({0: 1}), start({0: 2}))

    def test_offsets_that_run_backwards_are_refused(self) -> None:
        with pytest.raises(IntervalError, match="t-0 would start at offset 9 and end at 5"):
            ranges_between(start({0: 9}), end({0: 5}))

    def test_a_partition_that_vanished_is_refused(self) -> None:
        with pytest.raises(TopicChangedError):
            ranges_between(start({0: 1, 1: 1}), end({0: 2}))

    def test_snapshots_of_two_isolation_levels_make_no_window(self) -> None:
        """E15, S9."""
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

    def test_the_same_window_has_the_same_hash(self) -> None:
        assert manifest({0: 1}, {0: 2}).sha256 == manifest({0: 1}, {0: 2}).sha256

    def test_a_change_after_hashing_is_refused(self) -> None:
        pinned = manifest({0: 1}, {0: 2})
        tampered = pinned.to_bytes().replace(b'"end_offset":[2]', b'"end_offset":[3]')
        with pytest.raises(LedgerCorruptError, match="changed after it was pinned"):
            Manifest.from_bytes(tampered, pinned.sha256)

    @pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format":1}', b'{"format":3,"topics":{}}'])
    def test_something_else_is_refused_by_name(self, content: bytes) -> None:
        with pytest.raises(LedgerCorruptError):
            Manifest.from_bytes(content)

    def test_only_ranges_that_hold_something_are_read(self) -> None:
        """S6: empty ranges are kept, and not read."""
        pinned = manifest({0: 1, 1: 5}, {0: 2, 1: 5})
        assert len(pinned.ranges) == 2
        assert [each.partition for each in pinned.non_empty()] == [0]

    def test_it_is_plain_json_with_offsets_as_numbers(self) -> None:
        fields = json.loads(manifest({0: 1}, {0: 2}).to_bytes())
        assert fields["topics"]["t"]["start_offset"] == [1]


class TestSnapshotFile:
    def test_it_reads_back_as_it_was_written(self) -> None:
        stored = snapshot({0: 5, 1: 7})
        assert OffsetSnapshot.from_json(json.loads(json.dumps(stored.to_json()))) == stored

    @pytest.mark.parametrize("fields", [{}, {"format": 99}, {"format": 1}])
    def test_something_else_is_refused_by_name(self, fields: dict[str, object]) -> None:
        with pytest.raises(LedgerCorruptError):
            OffsetSnapshot.from_json(fields)

    def test_its_title_is_right_for_whatever_it_is_as_of(self) -> None:
        whats = [
            AsOf(AsOfKind.INSTANT, T0),
            AsOf(AsOfKind.LATEST),
            AsOf(AsOfKind.GROUP, group="loader"),
        ]
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
