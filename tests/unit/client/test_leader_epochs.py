"""Own epochs: an offset is of the newest epoch that had begun by then, whatever the leader remembers."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.client.lookups.leader_epochs import narrowed
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd

STARTS = {0: 0, 3: 40, 7: 100}
"""Where the epochs of a log start. It ends at 150."""
END = 150
OLD = ResponseError("UNSUPPORTED_VERSION", 35, False)


def ends_at(asked: int, starts: dict[int, int]) -> EpochEnd:
    """What Kafka's ``LeaderEpochFileCache.endOffsetFor`` answers for an epoch before the newest."""
    epochs = sorted(starts)
    place = bisect_right(epochs, asked)
    return EpochEnd("t", 0, epochs[place - 1] if place else asked, starts[epochs[place]])


def own(offset: int, seen_under: int, starts: dict[int, int] = STARTS) -> int | None:
    found, before = CommittedOffset("t", 0, offset, seen_under), None
    while found.leader_epoch and found != before:
        found, before = narrowed(found, ends_at(found.leader_epoch - 1, starts)), found
    return found.leader_epoch


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (39, 0), (40, 3), (99, 3), (100, 7), (149, 7), (END, 7)])
def test_is_the_record_s_inside_the_log_and_the_leader_s_at_its_end(offset: int, epoch: int) -> None:
    assert own(offset, 7) == epoch


@given(st.data())
def test_is_the_newest_that_had_begun(data: st.DataObject) -> None:
    epochs = sorted(data.draw(st.sets(st.integers(0, 2000), min_size=1, max_size=30)))
    offsets = data.draw(st.lists(st.integers(0, 10**6), min_size=len(epochs), max_size=len(epochs), unique=True))
    starts = dict(zip(epochs, [0, *sorted(offsets)[1:]], strict=True))
    offset = data.draw(st.integers(0, 10**6 + 1))
    assert own(offset, epochs[-1], starts) == max(epoch for epoch, start in starts.items() if start <= offset)


def test_is_never_past_the_epoch_that_the_offset_was_seen_under() -> None:
    """The log was cut at 40 since, and has a later leader: 60 is committed as what it was, which shows it."""
    assert own(60, 3, {0: 0, 8: 40}) == 3


@pytest.mark.parametrize(
    "end",
    [EpochEnd("t", 0), EpochEnd("t", 0, 6, None), EpochEnd("t", 0, 9, 20), EpochEnd("t", 0, error=OLD)],
    ids=["no epochs", "no end", "another epoch than asked", "a broker that is too old"],
)
def test_is_unknown_where_the_leader_does_not_tell(end: EpochEnd) -> None:
    assert narrowed(CommittedOffset("t", 0, 50, 7), end).leader_epoch is None
