"""Own epochs: an offset is of the newest epoch that had begun by then, whatever the leader remembers."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.offsets.answers.logs import EpochEnd
from airflow_kafka_offsets.offsets.answers.own_epochs import OwnEpoch

STARTS = {0: 0, 3: 40, 7: 100}
"""Where the epochs of a log start. It ends at 150."""
END = 150


def ends_at(asked: int, starts: dict[int, int] = STARTS, end: int = END) -> EpochEnd:
    """What Kafka's ``LeaderEpochFileCache.endOffsetFor`` answers."""
    epochs = sorted(starts)
    if asked == epochs[-1]:
        return EpochEnd("t", 0, asked, end)
    place = bisect_right(epochs, asked)
    if place == len(epochs):
        return EpochEnd("t", 0)
    return EpochEnd("t", 0, epochs[place - 1] if place else asked, starts[epochs[place]])


def searched(offset: int, seen_under: int, starts: dict[int, int] = STARTS, end: int = END) -> tuple[int | None, int]:
    """The own epoch, and how many rounds it took."""
    known: OwnEpoch | None = OwnEpoch(offset, seen_under)
    rounds = 0
    while known is not None and (questions := known.questions()):
        rounds += 1
        for asked in questions:
            known = known and known.told(asked, ends_at(asked, starts, end))
    return (None if known is None else known.at_most), rounds


class TestSearch:
    @pytest.mark.parametrize(("offset", "own"), [(0, 0), (39, 0), (40, 3), (99, 3), (100, 7), (149, 7), (END, 7)])
    def test_finds_the_record_s_epoch_inside_the_log_and_the_leader_s_at_its_end(self, offset: int, own: int) -> None:
        assert searched(offset, 7)[0] == own

    def test_asks_nothing_in_a_log_of_one_epoch_and_once_where_the_epoch_is_right(self) -> None:
        assert searched(END, 0) == (0, 0)
        assert searched(END, 7) == (7, 1)
        assert searched(40, 3) == (3, 1)

    @given(st.data())
    def test_finds_the_newest_that_had_begun_in_few_rounds(self, data: st.DataObject) -> None:
        epochs = sorted(data.draw(st.sets(st.integers(0, 2000), min_size=1, max_size=30)))
        offsets = data.draw(st.lists(st.integers(0, 10**6), min_size=len(epochs), max_size=len(epochs), unique=True))
        starts = dict(zip(epochs, [0, *sorted(offsets)[1:]], strict=True))
        end = data.draw(st.integers(max(starts.values()), 10**6 + 1))
        offset = data.draw(st.integers(0, end))
        own, rounds = searched(offset, epochs[-1], starts, end)
        assert own == max(epoch for epoch, start in starts.items() if start <= offset)
        assert rounds <= 12

    def test_never_goes_past_the_epoch_that_the_offset_was_seen_under(self) -> None:
        """The log was cut at 40 since, and has a later leader: 60 is committed as what it was, which shows it."""
        assert searched(60, 3, {0: 0, 8: 40})[0] == 3


class TestLeadersThatDoNotTell:
    @pytest.mark.parametrize(
        "end",
        [EpochEnd("t", 0), EpochEnd("t", 0, 6, None), EpochEnd("t", 0, 9, 20)],
        ids=["no epochs", "no end", "another epoch than asked"],
    )
    def test_leave_it_unknown(self, end: EpochEnd) -> None:
        assert OwnEpoch(50, 7).told(6, end) is None

    def test_and_those_that_contradict_themselves_too(self) -> None:
        known = OwnEpoch(50, 7).told(3, EpochEnd("t", 0, 3, 40))
        assert known is not None
        assert known.told(6, EpochEnd("t", 0, 0, 60)) is None
