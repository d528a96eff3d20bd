"""Batch counts: what the bytes of a Fetch answer hold, counted from the headers of its record batches.

From Kafka 0.11 on a batch's header says how many records it has and how many offsets it takes. Its records are decoded
where that isn't enough: a batch with gaps that reaches over an end of the range, and batches of before, which have no
header. Fetching is :mod:`.log_reading`'s job. CRCs are not checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords

from airflow_kafka_offsets.client.connection.response_errors import CORRUPT_MESSAGE, named_error
from airflow_kafka_offsets.client.records.record_batches import (
    AbortedTransaction,
    Transactions,
    is_long_enough,
    last_offset_of,
    needs_codec,
    too_large,
)
from airflow_kafka_offsets.client.records.record_heads import HEADERS_OF_BATCHES, record_heads
from airflow_kafka_offsets.client.records.unpacking import TooLargeError
from airflow_kafka_offsets.offsets.answers.records import LogContent


def count_batches(records: bytes, aborted: Iterable[AbortedTransaction], so_far: LogContent) -> LogContent:
    """What was counted of a range, and what one more answer holds of it.

    :param records: whole batches in order of offsets, from the one on that contains ``so_far.counted_to`` or comes
        after it; the last may be cut off.
    :param aborted: what the answer says of aborted transactions; nothing under read_uncommitted.
    """
    content, transactions, started_s = so_far, Transactions(aborted), time.monotonic()
    try:
        for batch in MemoryRecords(records):
            if content.counted_to > so_far.counted_to and is_long_enough(started_s):
                break
            content = _with_batch(content, batch, transactions.show(batch))
            if content.is_complete:
                break
    except UnsupportedCodecError:
        return content._replace(error=needs_codec(batch))
    except TooLargeError:
        return content._replace(error=too_large(batch))
    except Exception as error:  # each codec has its own for bytes that aren't its own, and some are plain Exceptions
        at = content.counted_to
        return content._replace(error=named_error(CORRUPT_MESSAGE, f"at offset {at} or later: {error}"))
    return content


def _with_batch(content: LogContent, batch: Any, is_visible: bool) -> LogContent:
    """The offsets up to the batch's end, as far as the range goes."""
    at = content.counted_to
    # The offset of a batch of before is that of its last record.
    base = at if batch.magic < HEADERS_OF_BATCHES else batch.base_offset
    first = min(max(base, at), content.end_offset)
    stop = max(first, min(last_offset_of(batch) + 1, content.end_offset))
    count, offset_sum = _records_between(batch, first, stop)
    if count > stop - first:
        raise ValueError(f"a batch says that it has {count} records at {stop - first} offsets")
    content = content._replace(missing=content.missing + stop - at - count)
    if is_visible:
        known = content.offset_sum is not None and offset_sum is not None
        total = (content.offset_sum or 0) + (offset_sum or 0)
        return content._replace(records=content.records + count, offset_sum=total if known else None)
    if batch.is_control_batch:
        return content._replace(markers=content.markers + count)
    return content._replace(aborted=content.aborted + count)


def _records_between(batch: Any, first: int, stop: int) -> tuple[int, int | None]:
    """How many records a batch has from one offset to another, and the sum of their offsets, where it is known."""
    if first == stop:
        return 0, 0
    if batch.magic >= HEADERS_OF_BATCHES:
        if batch.records_count == batch.last_offset_delta + 1:
            return stop - first, (first + stop - 1) * (stop - first) // 2
        if batch.records_count == 0:
            return 0, 0
        if (first, stop) == (batch.base_offset, batch.last_offset + 1):
            return batch.records_count, None
    count = total = 0
    for record in record_heads(batch):
        if first <= record.offset < stop:
            count, total = count + 1, total + record.offset
    return count, total
