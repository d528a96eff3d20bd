"""What was loaded of a topic at a moment in the past, by windows whose snapshots are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary

Part = Mapping[TopicPartition, Boundary]
"""The boundaries of a snapshot on the partitions in question."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What some windows have loaded.

    :param windows: the published ones, in order of time, each with how many offsets it has.
    :param ends: the sum of the offsets at which each of them ends, by its end in time.
    :param starts: where counting starts for each partition: its offset where the first window starts, published or not;
        or, if it was added later, its log start then.
    """

    windows: Sequence[tuple[Window, int]]
    ends: Mapping[int, int]
    starts: Mapping[TopicPartition, int]

    @classmethod
    def of(cls, windows: Sequence[Window], parts: Mapping[int, Part]) -> Self | None:
        """What some windows have loaded; None if none is published.

        :param parts: their snapshots, by their places in time.
        """
        times = sorted({at_ms for each in windows for at_ms in (each.start_ms, each.end_ms)})
        published = [each for each in windows if each.publication is not None]
        if not published:
            return None
        starts: dict[TopicPartition, int] = {}
        for at_ms in times:
            for key, each in parts[at_ms].items():
                starts.setdefault(key, each.offset if at_ms == times[0] else each.log_start_offset)

        def size(window: Window) -> int:
            start = parts[window.start_ms]
            offsets = {key: start[key].offset if key in start else starts[key] for key in parts[window.end_ms]}
            return sum(each.offset - offsets[key] for key, each in parts[window.end_ms].items())

        ends = {each.end_ms: sum(part.offset for part in parts[each.end_ms].values()) for each in published}
        return cls([(each, size(each)) for each in published], ends, starts)

    def by(self, at_ms: int) -> Self | None:
        """What was loaded at a moment, Unix milliseconds; None if nothing was. Of a window that was loaded again, the
        log's state tells only when its newest rows were published."""
        windows = [each for each in self.windows if _published_ms(each[0]) <= at_ms]
        return type(self)(windows, self.ends, self.starts) if windows else None

    @property
    def end_ms(self) -> int:
        """Where the last window ends in time, Unix milliseconds."""
        return self.windows[-1][0].end_ms

    @property
    def upto(self) -> int:
        """The offset where it ends, summed over the partitions."""
        return self.ends[self.end_ms]

    def unloaded(self, part: Part, ends: Mapping[TopicPartition, int]) -> int:
        """How many offsets, from where counting starts to the ends of the logs, are in none of the windows."""
        size = sum(end - self.starts.get(key, part[key].log_start_offset) for key, end in ends.items())
        return max(0, size - sum(own for _, own in self.windows))


def _published_ms(window: Window) -> int:
    assert window.publication is not None, "only published windows are counted"
    return window.publication.published_ms
