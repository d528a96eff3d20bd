"""Record batches: finds the first visible record, or counts a range, in the bytes of a Fetch answer.

Skips what the Java consumer skips (``CompletedFetch``): control batches, batches of aborted transactions, and records
before the position. From Kafka 0.11 on, a batch's header says how many records it has and how many offsets it covers.
Batches are compressed as a whole, so a batch is decompressed only if its header isn't enough
(:mod:`.batch_records`). CRCs are not checked. Fetching is :mod:`.log_reading`'s job.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords

from airflow_kafka_offsets.client.connection.wire import Code, named_error, or_none
from airflow_kafka_offsets.client.records.batch_records import (
    HEADERS_OF_BATCHES,
    MOST_BYTES,
    MOST_RECORDS,
    TooLargeError,
    records_of,
)
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.records import MOST_RUNS, LogContent, Runs

_LONGEST_S = 0.5
"""How long one answer is read before stopping at the end of a batch. Megabytes may decompress to gigabytes, and a
single thread reads all of a client's answers."""
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


class FoundRecord(NamedTuple):
    """A visible record.

    :param timestamp_ms: Unix milliseconds; None if it has none, if its codec isn't installed, or if the batch unpacks
        to too much.
    :param missing_codec: the codec that is needed for the timestamp but isn't installed; empty otherwise.
    """

    offset: int
    timestamp_ms: int | None
    missing_codec: str = ""


class AbortedTransaction(NamedTuple):
    """An aborted transaction that overlaps the fetched offsets.

    :param first_offset: its first offset in this partition.
    """

    producer_id: int
    first_offset: int


class BatchesRead(NamedTuple):
    """The result of searching an answer's batches.

    :param record: the first visible record; None if these batches contain none.
    :param read_to: the record's offset, or without a record: one past the last offset that was read; the position, if
        no batch reaches it.
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

    :param records: batches in offset order, starting with the one that contains the position; the last may be cut off.
    :param aborted: aborted transactions in the answer; empty under read_uncommitted.
    :param at_or_after_ms: only records with this timestamp or a later one, Unix milliseconds; None for any record.
    """
    read_to, transactions, started_s = position, _Transactions(aborted), time.monotonic()
    batch: Any = None
    try:
        for batch in MemoryRecords(records or b""):
            if read_to > position and _is_long_enough(started_s):
                break
            last_offset = _last_offset_of(batch)
            if transactions.show(batch) and last_offset >= position:
                record = _first_of(batch, position, at_or_after_ms)
                if record is not None:
                    return BatchesRead(record, record.offset)
            read_to = max(read_to, last_offset + 1)
    except Exception as error:  # each codec has its own errors for malformed bytes, some of them plain Exceptions
        return BatchesRead(None, read_to, _why_unreadable(error, batch, read_to))
    return BatchesRead(None, read_to)


def _is_long_enough(started_s: float) -> bool:
    """Whether to let others go first. The rest of the answer is requested again if the call's deadline allows it."""
    return time.monotonic() - started_s > _LONGEST_S


class _Transactions:
    """Tracks which producers' transactions are aborted at the current batch (KIP-98)."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: set[int] = set()

    def show(self, batch: Any) -> bool:
        """Whether the records of the next batch are visible."""
        if batch.magic < HEADERS_OF_BATCHES:
            return True
        while self._to_come and self._to_come[0].first_offset <= batch.last_offset:
            self._aborted.add(self._to_come.popleft().producer_id)
        if not batch.is_control_batch:
            return not (batch.is_transactional and batch.producer_id in self._aborted)
        # The log cleaner can leave marker batches without a record.
        if batch.producer_id in self._aborted and batch.records_count and any(each.abort for each in records_of(batch)):
            self._aborted.discard(batch.producer_id)
        return False


def _last_offset_of(batch: Any) -> int:
    """The last offset of a batch; the log cleaner may have removed its record."""
    return int(batch.base_offset if batch.magic < HEADERS_OF_BATCHES else batch.last_offset)


def _first_of(batch: Any, position: int, at_or_after_ms: int | None) -> FoundRecord | None:
    """The first record at or after the position, in a visible batch that reaches it."""
    if batch.magic < HEADERS_OF_BATCHES:
        return _decoded(batch, position, at_or_after_ms)
    # A batch that the log cleaner emptied keeps its header.
    if not batch.records_count or (at_or_after_ms is not None and batch.max_timestamp < at_or_after_ms):
        return None
    # Without gaps, every offset has a record. The base offset alone proves nothing: the cleaner never changes it.
    has_gaps = batch.records_count != batch.last_offset_delta + 1
    offset = max(position, batch.base_offset)
    if not has_gaps and (batch.timestamp_type == batch.LOG_APPEND_TIME or batch.records_count == 1):
        return FoundRecord(offset, or_none(batch.max_timestamp))
    try:
        return _decoded(batch, position, at_or_after_ms)
    except (UnsupportedCodecError, TooLargeError) as error:
        if has_gaps or at_or_after_ms is not None:
            raise
        return FoundRecord(offset, None, _codec_of(batch) if isinstance(error, UnsupportedCodecError) else "")


def _decoded(batch: Any, position: int, at_or_after_ms: int | None) -> FoundRecord | None:
    for record in records_of(batch):
        timestamp_ms = or_none(record.timestamp)
        is_late = at_or_after_ms is None or (timestamp_ms is not None and timestamp_ms >= at_or_after_ms)
        if record.offset >= position and is_late:
            return FoundRecord(record.offset, timestamp_ms)
    return None


def _codec_of(batch: Any) -> str:
    return _CODECS.get(batch.compression_type, f"codec {batch.compression_type}")


def _why_unreadable(error: Exception, batch: Any, offset: int) -> ResponseError:
    """The error of a batch that can't be read.

    :param offset: one past the last offset that was read.
    """
    if isinstance(error, UnsupportedCodecError):
        return named_error(
            Code.UNSUPPORTED_COMPRESSION_TYPE,
            f"the records up to offset {_last_offset_of(batch)} are compressed with {_codec_of(batch)}, whose library "
            "isn't installed: pip install 'airflow-kafka-offsets[codecs]'",
        )
    if isinstance(error, TooLargeError):
        return named_error(
            Code.MESSAGE_TOO_LARGE,
            f"the batch up to offset {_last_offset_of(batch)} unpacks to more than {MOST_BYTES // 1024 // 1024} MiB or "
            f"{MOST_RECORDS} records, more than this client reads: find out who writes to the topic, and "
            "delete its records up to that offset if nobody needs them",
        )
    return named_error(Code.CORRUPT_MESSAGE, f"at offset {offset} or later: {error}")


def count_batches(records: bytes, aborted: Iterable[AbortedTransaction], so_far: LogContent) -> LogContent:
    """The counts of a range, with one more answer's batches added.

    :param records: batches in offset order, starting with the one that contains ``so_far.counted_to`` or comes after
        it; the last may be cut off.
    :param aborted: aborted transactions in the answer; empty under read_uncommitted.
    """
    content, transactions, started_s = so_far, _Transactions(aborted), time.monotonic()
    batch: Any = None
    try:
        for batch in MemoryRecords(records):
            if content.counted_to > so_far.counted_to and _is_long_enough(started_s):
                break
            content = _with_batch(content, batch, transactions.show(batch))
            if content.is_complete:
                break
    except Exception as error:  # as above
        return content._replace(error=_why_unreadable(error, batch, content.counted_to))
    return content


def _with_batch(content: LogContent, batch: Any, is_visible: bool) -> LogContent:
    """The counts with the offsets up to the batch's end added, within the range."""
    at = content.counted_to
    # An older batch's offset is that of its last record.
    base = at if batch.magic < HEADERS_OF_BATCHES else batch.base_offset
    first = min(max(base, at), content.end_offset)
    stop = max(first, min(_last_offset_of(batch) + 1, content.end_offset))
    count, offset_sum, runs = _records_between(batch, first, stop)
    if count > stop - first:
        raise ValueError(f"a batch claims {count} records at {stop - first} offsets")
    content = content._replace(missing=content.missing + stop - at - count)
    if is_visible:
        known = content.offset_sum is not None and offset_sum is not None
        total = (content.offset_sum or 0) + (offset_sum or 0)
        content = content._replace(records=content.records + count, offset_sum=total if known else None)
        return content._replace(runs=_runs_with(content.runs, runs))
    if batch.is_control_batch:
        return content._replace(markers=content.markers + count)
    return content._replace(aborted=content.aborted + count)


def _records_between(batch: Any, first: int, stop: int) -> tuple[int, int | None, Runs | None]:
    """Number of a batch's records in ``[first, stop)``, the sum of their offsets, and these as runs; None if they
    aren't known."""
    if first == stop:
        return 0, 0, ()
    if batch.magic >= HEADERS_OF_BATCHES:
        if batch.records_count == batch.last_offset_delta + 1:
            return stop - first, (first + stop - 1) * (stop - first) // 2, ((first, stop),)
        if batch.records_count == 0:
            return 0, 0, ()
        if (first, stop) == (batch.base_offset, batch.last_offset + 1):
            return batch.records_count, None, None
    offsets = [record.offset for record in records_of(batch) if first <= record.offset < stop]
    return len(offsets), sum(offsets), tuple((offset, offset + 1) for offset in offsets)


def _runs_with(runs: Runs | None, more: Runs | None) -> Runs | None:
    """Runs with later ones; None if either isn't known, or there are too many."""
    if runs is None or more is None:
        return None
    for start, end in more:
        joins = bool(runs) and runs[-1][1] == start
        runs = (*runs[:-1], (runs[-1][0], end)) if joins else (*runs, (start, end))
    return runs if len(runs) <= MOST_RUNS else None
