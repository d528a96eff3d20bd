"""The search for extreme timestamps: which stretches of a window Spark's Kafka source fails on, once it has failed.

Spark itself says it, of halves of what failed, down to a few offsets; from there on Kafka's own consumer looks at the
records one by one. A stretch has some of these records, and may have others between them, so that however they lie, few
stretches name many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import ExtremeTimestampError, shorten
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.spark.conf import EXTREME_TIMESTAMPS
from airflow_kafka_offsets.spark.files.hadoop import JAVA_ERRORS
from airflow_kafka_offsets.spark.kafka.driver_rows import fits
from airflow_kafka_offsets.spark.kafka.extreme_timestamps import is_overflow, text_of
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients
from airflow_kafka_offsets.spark.kafka.stretches import records_of

_FEW = 1_000
"""So many offsets are looked at without Spark, whose shortest job takes as long; and so many records in a row that
Spark can read end a stretch."""
_MANY = 20_000
"""So many of these records in one stretch, and it is taken to go on up to the range's end: Python looks at some
thousands a second, and what Spark can read the driver reads as well."""
_FOUND = 20
"""How many stretches are looked for: each costs some short Spark jobs."""
_LONGEST = 1_500
"""Characters of the conf: the note that brings the error to Airflow has an end."""

Read = Callable[[Sequence[OffsetRange]], DataFrame]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets between which such records lie.

    :param where: from the first of them to the last.
    :param records: how many they are.
    :param timestamp_ms: of the first one, as the producer gave it.
    """

    where: LogRange
    records: int
    timestamp_ms: int

    def __str__(self) -> str:
        at, last = self.where, self.where.end_offset - 1
        if self.records == 1:
            return f"{at.topic}-{at.partition} at {last}, {self.timestamp_ms} ms"
        where = f"{at.topic}-{at.partition} from {at.start_offset} to {last}"
        return f"{where}, {self.records} records, the first of {self.timestamp_ms} ms"


def extreme_timestamp_error(
    read: Read, clients: KafkaClients, window: str, ranges: Iterable[OffsetRange], *, named: bool
) -> ExtremeTimestampError | None:
    """The error that names the records, and what to do; None where Spark reads all of them now.

    :param read: makes a frame of ranges by Spark's Kafka source.
    :param ranges: what Spark has read.
    :param named: whether the conf names others.
    """
    found = list(islice((each for one in ranges for each in _Search(read, clients, one).run()), _FOUND + 1))
    if not found:
        return None
    told = found[:_FOUND]
    while len(told) > 1 and len(text_of(each.where for each in told)) > _LONGEST:
        told.pop()
    give = "add to what the Spark application's conf names:" if named else "give the Spark application the conf"
    more = " There are more: the next try names them, or name longer stretches." if len(found) > len(told) else ""
    return ExtremeTimestampError(
        f"Window {window} has records whose timestamps Spark's Kafka source can't read, as they lie more than 292,000 "
        f"years from 1970: {shorten(map(str, told))}. Nothing is published. Does a producer write nanoseconds? "
        f"To load them with the timestamp null, {give} "
        f"{EXTREME_TIMESTAMPS}={text_of(each.where for each in told)}.{more}"
    )


class _Search:
    """The search of one range, from its start on.

    :param read: makes a frame of ranges by Spark's Kafka source.
    :param clients: of the cluster that is read, with the reader's options.
    :param pinned: the range.
    """

    def __init__(self, read: Read, clients: KafkaClients, pinned: OffsetRange) -> None:
        self._read, self._clients, self._pinned = read, clients, pinned
        self._reached = pinned.start_offset

    def run(self) -> Iterator[Stretch]:
        yield from self._within(self._pinned)

    def _within(self, piece: OffsetRange) -> Iterator[Stretch]:
        start, end = max(piece.start_offset, self._reached), piece.end_offset
        if start >= end or _reads(self._read([replace(piece, start_offset=start)])):
            return
        if end - start <= _FEW:
            yield from self._looked_at(start)
            return
        middle = (start + end) // 2
        yield from self._within(replace(piece, start_offset=start, end_offset=middle))
        yield from self._within(replace(piece, start_offset=middle))

    def _looked_at(self, start: int) -> Iterator[Stretch]:
        """The stretch that begins in the few offsets from there on, and goes on as far as it does."""
        pinned = self._pinned
        first: tuple[int, int] | None = None
        last = count = calm = 0
        reached = pinned.end_offset
        for _, record in records_of(
            self._clients, [LogRange(pinned.topic, pinned.partition, start, pinned.end_offset)]
        ):
            offset, timestamp_ms = int(record.offset()), int(record.timestamp())
            if fits(timestamp_ms):
                calm += 1
            else:
                first = first or (offset, timestamp_ms)
                last, count, calm = offset, count + 1, 0
            if calm > _FEW:
                reached = offset + 1
                break
            if count == _MANY:
                last = pinned.end_offset - 1
                break
        self._reached = reached
        if first is not None:
            yield Stretch(LogRange(pinned.topic, pinned.partition, first[0], last + 1), count, first[1])


def _reads(rows: DataFrame) -> bool:
    try:
        rows.write.format("noop").mode("overwrite").save()
    except JAVA_ERRORS as error:
        if not is_overflow(error):
            raise
        return False
    return True
