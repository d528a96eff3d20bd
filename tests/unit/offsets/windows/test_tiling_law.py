"""The tiling law, on the pure rules: whatever a log goes through while its instants are resolved, in whatever order,
the windows between them hold every offset once, also those that are gone: what is lost is for a load to tell.

A model of Kafka's log answers as leaders do: a look-up finds the first record at or after an instant that isn't
deleted, and log ends are asked before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings, strategies as st

from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents, TopicFacts
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.boundaries import at_instant, clamp
from airflow_kafka_offsets.offsets.windows.manifest import OffsetRange, ranges_between
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot
from tests.unit.offsets.builders import T0

INSTANTS = [T0 + n * 1000 for n in range(6)]
LEVEL = IsolationLevel.READ_COMMITTED


@dataclass
class Log:
    """One partition: the timestamps of all records that it ever had, and where it starts now."""

    timestamps: list[int] = field(default_factory=list)
    start: int = 0

    def extent(self, partition: int) -> LogExtent:
        end = len(self.timestamps)
        return LogExtent("t", partition, self.start, end, end, leader_epoch=1)

    def look_up(self, partition: int, instant: int) -> ListedOffset:
        spec = OffsetSpec.at(instant)
        for offset in range(self.start, len(self.timestamps)):
            if self.timestamps[offset] >= instant:
                return ListedOffset("t", partition, spec, ListOutcome.FOUND, offset, self.timestamps[offset], 1)
        return ListedOffset("t", partition, spec, ListOutcome.NO_RECORD)


class Topic:
    """A topic and the pipeline that resolves its instants."""

    def __init__(self) -> None:
        self.logs = [Log()]
        self.chain: dict[int, OffsetSnapshot] = {}

    def produce(self, partition: int, timestamp_ms: int) -> None:
        self.logs[partition % len(self.logs)].timestamps.append(timestamp_ms)

    def delete(self, partition: int, share: float) -> None:
        log = self.logs[partition % len(self.logs)]
        log.start = max(log.start, int(len(log.timestamps) * share))

    def add_partition(self) -> None:
        self.logs.append(Log())

    def resolve(self, instant: int, meanwhile: int | None) -> None:
        """First writer wins. A record may arrive between the two questions."""
        if instant in self.chain:
            return
        asked = list(enumerate(self.logs))
        extents = LogExtents([log.extent(number) for number, log in asked])
        if meanwhile is not None:
            self.produce(meanwhile, instant + meanwhile - 2)
        listed = ListedOffsets([log.look_up(number, instant) for number, log in asked])
        snapshot = OffsetSnapshot(
            AsOf(AsOfKind.INSTANT, instant),
            "cluster-1",
            LEVEL,
            T0,
            {"t": TopicFacts("t", "id-1", len(asked))},
            at_instant(extents, listed, LEVEL),
        )
        before = max((each for each in self.chain if each < instant), default=None)
        after = min((each for each in self.chain if each > instant), default=None)
        neighbours = [None if each is None else self.chain[each] for each in (before, after)]
        self.chain[instant] = clamp(snapshot, *neighbours)

    def windows(self) -> list[tuple[OffsetRange, ...]]:
        ordered = [self.chain[each] for each in sorted(self.chain)]
        return [ranges_between(*each) for each in pairwise(ordered)]


partitions = st.integers(0, 4)
timestamps = st.integers(T0 - 2000, T0 + 8000)
events = st.one_of(
    st.tuples(st.just("produce"), partitions, timestamps),
    st.tuples(st.just("delete"), partitions, st.floats(0, 1)),
    st.tuples(st.just("add_partition")),
    st.tuples(st.just("resolve"), st.sampled_from(INSTANTS), st.none() | partitions),
)


def by_partition(windows: list[tuple[OffsetRange, ...]]) -> Mapping[TopicPartition, list[OffsetRange]]:
    found: dict[TopicPartition, list[OffsetRange]] = {}
    for window in windows:
        for each in window:
            found.setdefault(TopicPartition(each.topic, each.partition), []).append(each)
    return found


@given(st.lists(events, min_size=5, max_size=60), st.permutations(INSTANTS))
@settings(max_examples=300, deadline=None)
def test_windows_tile_whatever_happens(history: list[tuple], order: list[int]) -> None:  # type: ignore[type-arg]
    """S2, S3, S17, S18, E2, E3, E4, E9, E23: late and early records, deletions, new partitions, any order."""
    topic = Topic()
    for name, *arguments in history:
        getattr(topic, name)(*arguments)
    for instant in order:
        topic.resolve(instant, None)
    windows = topic.windows()
    for key, ranges in by_partition(windows).items():
        first, last = ranges[0].start_offset, ranges[-1].end_offset
        held = [offset for each in ranges for offset in range(each.start_offset, each.end_offset)]
        assert held == list(range(first, last)), "each offset once, in order"
        if key not in topic.chain[INSTANTS[0]].boundaries:
            assert first == 0, "a new partition begins with its first record, whatever has become of it"
