"""What restarts have taken: offsets that no published window has, of logs that ended, as far as snapshots saw them.

Derived whenever it is asked for, so that windows that are voided, loaded, or published later, are in it as they are
now. Kafka may have had more: what came after the last snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import topic_change


def taken(ledger: Ledger, number: int) -> list[LogRange]:
    """What a restart has taken, by partition.

    :param number: the restart's commit.
    """
    restart = dict(ledger.state.restarts)[number]
    times = [at_ms for at_ms, each in ledger.state.snapshots.items() if at_ms < restart.at_ms and each.number < number]
    if not times:
        return []
    last = ledger.offsets_then(times[-1], number - 1)
    tail = [LogRange(*key, each.offset, each.high_watermark) for key, each in last.boundaries.items()]
    ended = _Ended(restart, last, [each for made, each in ledger.state.restarts if made > number])
    return merged(filter(lambda each: each.span > 0, map(ended.of, [*_unloaded(ledger, number, times), *tail])))


def words(restart: Restarted) -> str:
    """A restart in words, without what it has taken."""
    return f"{shorten(restart.topics)} began anew after {iso_instant(restart.at_ms - 1)}: {restart.why}"


def told(ledger: Ledger, number: int) -> str:
    """A restart in words.

    :param number: its commit.
    """
    offsets = sum(each.span for each in taken(ledger, number))
    lost = f"; at least {number_of(offsets, 'offset')} of the old logs are in no published window" if offsets else ""
    return words(dict(ledger.state.restarts)[number]) + lost


def ended_windows(ledger: Ledger) -> list[Window]:
    """The windows that aren't published and of whose offsets restarts have taken some: they can't be loaded as they
    are any more."""
    state = ledger.state
    newest = state.restarts[-1][0] if state.restarts else 0
    waiting = [each for each in state.windows.values() if each.publication is None and each.number < newest]
    return [each for each in waiting if _span(ledger, each) < each.offsets]


def _span(ledger: Ledger, window: Window) -> int:
    return sum(each.span for each in ledger.between(window.start_ms, window.end_ms))


def _unloaded(ledger: Ledger, number: int, times: list[int]) -> Iterator[LogRange]:
    """What snapshots before a commit have seen and no published window has, of the logs as they were then. A window
    that was pinned later is of other logs, whatever its time."""
    loaded = [(each.start_ms, each.end_ms) for each in ledger.state.published if each.number < number]
    for (_, start_ms), (end_ms, _) in pairwise([(0, times[0]), *loaded, (times[-1], 0)]):
        if start_ms < end_ms:
            yield from ledger.between(start_ms, end_ms, number - 1)


class _Ended:
    """Which offsets a restart has ended.

    :param last: the logs before it.
    :param later: the restarts after it: a log that one of them goes on with has only lost what is below.
    """

    def __init__(self, restart: Restarted, last: OffsetSnapshot, later: Iterable[Restarted]) -> None:
        self._restart = restart
        self._cut = {TopicPartition(each.topic, each.partition): each.offset for each in restart.truncated}
        self._kept = {key.topic for key in self._cut}
        self._resumed = {
            key: place.offset
            for each in later
            if each.resumed is not None and each.resumed.cluster_id == last.cluster_id
            for key, place in each.resumed.boundaries.items()
            if _is_same(key.topic, last, each.resumed)
        }

    def of(self, each: LogRange) -> LogRange:
        """The part of a range that it has ended; one without offsets if there is none."""
        key = TopicPartition.of(each)
        if key.topic not in self._restart.topics or (key.topic in self._kept and key not in self._cut):
            return each._replace(end_offset=each.start_offset)
        start_offset = max(each.start_offset, self._cut.get(key, 0))
        end_offset = min(each.end_offset, self._resumed.get(key, each.end_offset))
        return each._replace(start_offset=start_offset, end_offset=end_offset)


def _is_same(topic: str, one: OffsetSnapshot, other: OffsetSnapshot) -> bool:
    return topic in one.topics and topic_change(one.topics[topic], other.topics[topic]) is None
