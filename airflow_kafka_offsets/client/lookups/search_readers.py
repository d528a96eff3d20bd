"""Log readers: how far the search from each position has come, and which of them fit into one Fetch request.

A reader is told what answers say; asking is :mod:`.record_search`'s job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import zip_longest

from airflow_kafka_offsets.client.connection.response_errors import OFFSET_NOT_AVAILABLE, left_out, named_error
from airflow_kafka_offsets.client.records.record_batches import BatchesRead, FoundRecord
from airflow_kafka_offsets.client.records.record_findings import Finding
from airflow_kafka_offsets.client.requests.fetch import ANSWER_BYTES
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.first_records import FirstRecord, Position
from airflow_kafka_offsets.offsets.answers.log_extents import LogExtent
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_FIRST_READ_BYTES = 16 * 1024
_TAIL_READ_BYTES = 1024 * 1024
_GROWTH = 4
"""How much more is asked for, after a batch that didn't fit."""


class LogReader:
    """How far the search from one position has come.

    :param position: where it began.
    :param now_s: the time, on the monotonic clock.
    """

    def __init__(self, position: Position, now_s: float) -> None:
        self.position = position
        self.piece = TopicPartition(position.topic, position.partition)
        self.start = self.offset = position.offset
        self.read_at_s = now_s
        self.limit_bytes = _FIRST_READ_BYTES
        self.times_left_out = 0
        self.record: FoundRecord | None = None
        self.end: int | None = None
        self.visible_end: int | None = None
        self.error: ResponseError | None = None

    @property
    def is_done(self) -> bool:
        """Nothing more is to be read."""
        return self.record is not None or self.end is not None or self.error is not None

    def learn(self, finding: Finding) -> None:
        """Go on where an earlier read stopped."""
        self.start = min(self.start, finding.start)
        self.offset, self.record = finding.end, finding.record
        self.read_at_s = min(self.read_at_s, finding.read_at_s)

    def read(self, found: BatchesRead) -> None:
        """Take in what some batches tell."""
        if found == BatchesRead(None, self.offset):
            self.leave_out(ANSWER_BYTES)  # not one whole batch came: only brokers that aren't Kafka do that
            return
        self.offset, self.record, self.error = found.read_to, found.record, found.error
        self.limit_bytes = max(self.limit_bytes, _TAIL_READ_BYTES)
        self.times_left_out = 0

    def leave_out(self, room_bytes: int) -> None:
        """The answer had none of its batches: they were too large, or others took the room."""
        self.times_left_out += 1
        if self.limit_bytes <= room_bytes:
            self.limit_bytes = min(self.limit_bytes * _GROWTH, ANSWER_BYTES)

    def follow(self, other: LogReader) -> None:
        """Take over what another reader found that went on from the same offset."""
        self.offset, self.record, self.end, self.error = other.offset, other.record, other.end, other.error
        self.limit_bytes = other.limit_bytes

    def resume(self, extent: LogExtent, isolation_level: IsolationLevel) -> None:
        """Go on from where the log really starts; or there is no such offset in it."""
        start, end = extent.log_start_offset, extent.end_offset(isolation_level)
        if extent.error is not None or start is None or end is None:
            self.error = extent.error or left_out("the leader")
        elif self.offset < start:
            self.offset = start
        elif self.offset >= end:
            self.end = end
        else:
            self.error = named_error(OFFSET_NOT_AVAILABLE, "the leader says two things of where the log ends")

    def finding(self) -> Finding:
        """What is to be remembered."""
        return Finding(self.start, self.offset, self.record, self.read_at_s)

    def element(self) -> FirstRecord:
        """The answer."""
        offset, timestamp_ms = self.record or (None, None)
        return FirstRecord(*self.position, offset, timestamp_ms, self.end, self.error)


def lanes(readers: Iterable[LogReader]) -> list[list[LogReader]]:
    """Readers in as few requests as may be, none of which names a partition twice, lowest offsets first.

    Who was left out most often is first of a request, where it can't be left out.
    """
    by_piece: dict[TopicPartition, list[LogReader]] = defaultdict(list)
    for each in sorted(readers, key=lambda each: each.offset):
        by_piece[each.piece].append(each)
    return [_in_order(list(filter(None, lane))) for lane in zip_longest(*by_piece.values())]


def _in_order(lane: list[LogReader]) -> list[LogReader]:
    first = max(lane, key=lambda each: each.times_left_out)
    return sorted(lane, key=lambda each: (each.piece.topic != first.piece.topic, each is not first, each.piece))
