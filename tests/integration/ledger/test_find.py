"""Where an offset is: found among many windows by reading few files."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pytest

from airflow_kafka_offsets.ledger import decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.files import Files
from airflow_kafka_offsets.ledger.find import Found, OffsetPlace, find
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset, TopicPartition
from tests.integration.ledger.loads import AT_T0, LATER_MS, at_hour, load, pin, place, publish, resolve, restart, window
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

P0 = TopicPartition("t", 0)


def where(found: list[Found]) -> list[tuple[str, str | None]]:
    return [(str(each.where), each.window and each.window.name) for each in found]


class TestFind:
    def test_a_record_is_in_the_window_that_has_its_offset(self, ledger: Ledger) -> None:
        for hour in range(4):
            load(ledger, hour)
        resolve(ledger, 4)
        for offset, hour in ((0, 0), (9, 0), (10, 1), (25, 2), (39, 3), (49, 4)):
            assert where(find(ledger, P0, AT_T0 + offset)) == [("window", window(hour))]

    def test_before_between_and_after_windows_the_nearest_ones_are_named(self, local: Ledger) -> None:
        first, last = load(local, 0), load(local, 3)
        (before,), (hole,), (after,) = (find(local, P0, AT_T0 + offset) for offset in (-1, 15, 40))
        assert (before.where, before.earlier, before.later) == (OffsetPlace.BEFORE, None, first)
        assert (hole.where, hole.earlier, hole.later) == (OffsetPlace.HOLE, first, last)
        assert (after.where, after.earlier, after.later) == (OffsetPlace.AFTER, last, None)

    def test_one_that_was_lost_before_the_load_is_said_to_be(self, local: Ledger) -> None:
        made = publish(local, resolve(local, 0), lost=[LogRange("t", 0, AT_T0, AT_T0 + 4)])
        assert where(find(local, P0, AT_T0 + 3)) == [("lost", made.name)]
        assert where(find(local, P0, AT_T0 + 4)) == [("window", made.name)]

    def test_a_partition_that_no_window_has_is_nowhere(self, local: Ledger) -> None:
        load(local, 0)
        assert find(local, TopicPartition("t", 7), 0) == []
        assert find(local, TopicPartition("u", 0), 0) == []

    def test_without_windows_nothing_is(self, local: Ledger) -> None:
        assert find(local, P0, 0) == []

    def test_of_a_partition_that_was_added_the_windows_before_have_nothing(self, local: Ledger) -> None:
        counts = [
            snapshot(dict.fromkeys(range(1 + (hour > 2)), hour * 10), at_ms=T0 + hour * HOUR_MS) for hour in range(5)
        ]
        for earlier, later in pairwise(counts):
            pin(local, earlier, later)
        added = TopicPartition("t", 1)
        assert where(find(local, added, 0)) == [("window", window(2))]
        assert where(find(local, added, 35)) == [("window", window(3))]

    def test_an_empty_window_has_none(self, local: Ledger) -> None:
        for earlier, later in pairwise(at_hour(hour, offset) for hour, offset in enumerate((0, 10, 10, 20))):
            pin(local, earlier, later)
        assert where(find(local, P0, 10)) == [("window", window(2))]


class TestALogThatBeganAnew:
    def test_may_have_had_an_offset_twice(self, local: Ledger) -> None:
        load(local, 0)
        restart(local)
        pin(local, at_hour(1), snapshot({0: AT_T0 + 5}, at_ms=T0 + 2 * HOUR_MS, topic_id="id-2"))
        assert where(find(local, P0, AT_T0 + 3)) == [("window", window(0)), ("window", window(1))]
        assert where(find(local, P0, AT_T0 + 7)) == [("window", window(0))]
        assert where(find(local, P0, 3)) == [("window", window(1))]

    def test_where_it_was_truncated_goes_on_from_there(self, local: Ledger) -> None:
        load(local, 0)
        restart(local, "truncated", (SeenOffset("t", 0, AT_T0 + 6, 1),))
        pin(local, snapshot({0: 0}, at_ms=T0 + HOUR_MS), snapshot({0: AT_T0 + 20}, at_ms=T0 + 2 * HOUR_MS))
        assert where(find(local, P0, AT_T0 + 3)) == [("window", window(0))]
        assert where(find(local, P0, AT_T0 + 8)) == [("window", window(0)), ("window", window(1))]
        assert where(find(local, P0, AT_T0 + 15)) == [("window", window(1))]

    def test_has_a_hole_between_its_windows_before_and_after_the_truncation(self, local: Ledger) -> None:
        load(local, 0)
        place(local, snapshot({0: AT_T0 + 40}, at_ms=T0 + 2 * HOUR_MS))
        restart(local, "truncated", (SeenOffset("t", 0, AT_T0 + 30, 1),))
        pin(local, snapshot({0: 0}, at_ms=T0 + 2 * HOUR_MS), snapshot({0: AT_T0 + 35}, at_ms=T0 + 3 * HOUR_MS))
        (found,) = find(local, P0, AT_T0 + 15)
        assert (found.where, found.earlier and found.earlier.name) == ("hole", window(0))
        assert [each.where for each in find(local, P0, AT_T0 - 1)] == ["before"]
        assert [each.where for each in find(local, P0, AT_T0 + 36)] == ["after"]


@dataclass
class Counted:
    """Files, and how many were read."""

    files: Files
    reads: int = 0

    def read(self, name: str) -> bytes | None:
        self.reads += 1
        return self.files.read(name)

    def names(self, folder: str) -> list[str]:
        return self.files.names(folder)

    def create(self, name: str, content: bytes) -> bool:
        return self.files.create(name, content)

    def replace(self, name: str, content: bytes) -> None:
        self.files.replace(name, content)


@pytest.mark.parametrize("growth", ["even", "by day and night", "in bursts"])
def test_among_many_windows_few_are_read(local: Ledger, growth: str) -> None:
    """Ten days of hours, of three partitions that don't grow alike."""
    chance, hours = random.Random(growth), range(240)
    rates = {
        "even": [100 for _ in hours],
        "by day and night": [10 if hour % 24 < 8 else 300 for hour in hours],
        "in bursts": [chance.choice((0, 1, 5, 20_000)) for _ in hours],
    }[growth]
    shares = {
        number: [int(rate * share * chance.uniform(0.8, 1.2)) for rate in rates]
        for number, share in enumerate((1, 0.3, 2))
    }
    offsets = {number: [0, *accumulate(each)] for number, each in shares.items()}
    taken = [
        snapshot({number: each[hour] for number, each in offsets.items()}, at_ms=T0 + hour * HOUR_MS)
        for hour in range(len(hours) + 1)
    ]
    asked = decisions.ResolvedOffsets(
        local.state.number, LATER_MS, {each.timestamp_ms: local.contents.add_snapshot(each) for each in taken}
    )
    windows = list(pairwise(each.timestamp_ms for each in taken))
    local.change(lambda state: decisions.pin(state, windows, asked, local.contents))
    most = []
    for number, each in offsets.items():
        for offset in (chance.randrange(each[-1]) for _ in range(15)):
            counted = Counted(local.files)
            local.contents = Contents(counted, local.uri)
            (found,) = find(local, TopicPartition("t", number), offset)
            (hour,) = (hour for hour in hours if each[hour] <= offset < each[hour + 1])
            assert found.window is not None
            assert found.window.name == window(hour)
            most.append(counted.reads)
    assert sum(most) / len(most) <= 4, most
    assert max(most) <= 8, most
