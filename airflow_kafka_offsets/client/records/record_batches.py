"""Record batches: the first visible record in the bytes of a Fetch answer, told from the headers where they tell it.

What is skipped is what the Java consumer skips (``CompletedFetch``): control batches, batches of aborted transactions,
records before the position. Batches are compressed as a whole: one is unpacked only where its header doesn't say which
offset is the first, or what its timestamp is, and then no further than to that record (:mod:`.record_heads`). CRCs are
not checked. Fetching is :mod:`.log_reading`'s job.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords

from airflow_kafka_offsets.client.connection.response_errors import (
    CORRUPT_MESSAGE,
    MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
    named_error,
)
from airflow_kafka_offsets.client.records.record_heads import (
    HEADERS_OF_BATCHES,
    MOST_RECORDS,
    is_abort_marker,
    record_heads,
)
from airflow_kafka_offsets.client.records.unpacking import MOST_BYTES, TooLargeError
from airflow_kafka_offsets.errors import ResponseError

_LONGEST_S = 0.5
"""An answer is read for so long, and to the end of the batch that is being read then: its batches may be megabytes that
unpack to gigabytes, and everything that a client asks is read by one thread."""
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


class FoundRecord(NamedTuple):
    """A record that a reader gets.

    :param offset: its offset.
    :param timestamp_ms: Unix milliseconds; None when it has none, its codec isn't installed, or it stands behind more
        than is unpacked of a batch.
    """

    offset: int
    timestamp_ms: int | None


class AbortedTransaction(NamedTuple):
    """An aborted transaction that overlaps what was fetched.

    :param producer_id: whose.
    :param first_offset: its first offset in this partition.
    """

    producer_id: int
    first_offset: int


class BatchesRead(NamedTuple):
    """What the batches of an answer tell.

    :param record: the first visible record; None when there is none in these batches.
    :param read_to: one past the last offset that was looked at; the position when no batch reaches it. The record's
        offset when there is one.
    :param error: why batches from ``read_to`` on can't be read.
    """

    record: FoundRecord | None
    read_to: int
    error: ResponseError | None = None


def read_first_record(
    records: bytes | None,
    aborted: Iterable[AbortedTransaction],
    position: int,
    at_or_after_ms: int | None = None,
) -> BatchesRead:
    """The first visible record at or after a position.

    :param records: whole batches in order of offsets, from the one that contains the position; the last may be cut off.
    :param aborted: what the answer says of aborted transactions; nothing under read_uncommitted.
    :param at_or_after_ms: of records with this timestamp or a later one, Unix milliseconds.
    """
    read_to, transactions, started_s = position, Transactions(aborted), time.monotonic()
    try:
        for batch in MemoryRecords(records or b""):
            if read_to > position and is_long_enough(started_s):
                break
            last_offset = last_offset_of(batch)
            if transactions.show(batch) and last_offset >= position:
                record = _first_of(batch, position, at_or_after_ms)
                if record is not None:
                    return BatchesRead(record, record.offset)
            read_to = max(read_to, last_offset + 1)
    except UnsupportedCodecError:
        return BatchesRead(None, read_to, needs_codec(batch))
    except TooLargeError:
        return BatchesRead(None, read_to, too_large(batch))
    except Exception as error:  # each codec has its own for bytes that aren't its own, and some are plain Exceptions
        return BatchesRead(None, read_to, named_error(CORRUPT_MESSAGE, f"at offset {read_to} or later: {error}"))
    return BatchesRead(None, read_to)


def is_long_enough(started_s: float) -> bool:
    """Whether others come first now: what is left of an answer is asked for again, if the call's deadline allows it.

    :param started_s: when reading the answer began, on the monotonic clock.
    """
    return time.monotonic() - started_s > _LONGEST_S


class Transactions:
    """Which transactions are aborted where the reading is, batch by batch (KIP-98)."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: set[int] = set()

    def show(self, batch: Any) -> bool:
        """Whether a reader gets the records of the next batch."""
        if batch.magic < HEADERS_OF_BATCHES:
            return True
        while self._to_come and self._to_come[0].first_offset <= batch.last_offset:
            self._aborted.add(self._to_come.popleft().producer_id)
        if not batch.is_control_batch:
            return not (batch.is_transactional and batch.producer_id in self._aborted)
        if batch.producer_id in self._aborted and is_abort_marker(batch):
            self._aborted.discard(batch.producer_id)
        return False


def last_offset_of(batch: Any) -> int:
    """The offset of a batch's last record; the cleaner may have removed the record."""
    return int(batch.base_offset if batch.magic < HEADERS_OF_BATCHES else batch.last_offset)


def _first_of(batch: Any, position: int, at_or_after_ms: int | None) -> FoundRecord | None:
    """The first record of a visible batch that reaches the position."""
    if batch.magic < HEADERS_OF_BATCHES:
        return _decoded(batch, position, at_or_after_ms)
    # A batch that the cleaner emptied keeps its header.
    if not batch.records_count or (at_or_after_ms is not None and batch.max_timestamp < at_or_after_ms):
        return None
    # Without gaps there is a record at each offset. The first offset alone says nothing: the cleaner lets it be.
    has_gaps = batch.records_count != batch.last_offset_delta + 1
    offset = max(position, batch.base_offset)
    if not has_gaps and (batch.timestamp_type == batch.LOG_APPEND_TIME or batch.records_count == 1):
        return FoundRecord(offset, _or_none(batch.max_timestamp))
    try:
        return _decoded(batch, position, at_or_after_ms)
    except (UnsupportedCodecError, TooLargeError):
        if has_gaps or at_or_after_ms is not None:
            raise
        return FoundRecord(offset, None)


def _decoded(batch: Any, position: int, at_or_after_ms: int | None) -> FoundRecord | None:
    for record in record_heads(batch):
        timestamp_ms = _or_none(record.timestamp)
        is_late = at_or_after_ms is None or (timestamp_ms is not None and timestamp_ms >= at_or_after_ms)
        if record.offset >= position and is_late:
            return FoundRecord(record.offset, timestamp_ms)
    return None


def _or_none(timestamp: int | None) -> int | None:
    return None if timestamp is None or timestamp < 0 else timestamp


def needs_codec(batch: Any) -> ResponseError:
    """The error of a batch whose records can't be decoded here."""
    codec = _CODECS.get(batch.compression_type, f"codec {batch.compression_type}")
    return named_error(
        UNSUPPORTED_COMPRESSION_TYPE,
        f"the records up to offset {last_offset_of(batch)} are compressed with {codec}, whose library isn't installed: "
        "pip install 'airflow-kafka-offsets[codecs]'",
    )


def too_large(batch: Any) -> ResponseError:
    """The error of a batch that unpacks to more than is read of one, where its header doesn't tell what was asked."""
    return named_error(
        MESSAGE_TOO_LARGE,
        f"the batch up to offset {last_offset_of(batch)} unpacks to more than {MOST_BYTES // 1024 // 1024} MiB or "
        f"{MOST_RECORDS} records, which nobody is made to read: see who writes to the topic, and delete its records up "
        "to there if they aren't wanted",
    )
