"""Records for benchmarks of Spark: very many JSON values as an application might write them, all different.

A value is computed from its position, so each run writes the same values. Two thirds of it are an order's fields, which
Parquet's codec compresses well, and the rest are hex digits, which it can't. librdkafka sends them, in batches as large
as the Java producer's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import shake_128

from confluent_kafka import Producer

from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, client

RECORD_BYTES = 300
"""The size of a value; its fields take about 200 bytes."""

_AT_ONCE = 10_000
_WAITING = 100_000
"""How many records the producer buffers before we wait for it."""
_PATIENCE_S = 120.0
_PRODUCER = {
    "batch.size": 16 * 1024,
    "linger.ms": 50,
    "enable.idempotence": True,
    "queue.buffering.max.messages": 2 * _WAITING,
    "log_level": 3,  # a new broker's first answers cause warnings
}
_MIXER = 0x9E37_79B9_7F4A_7C15
"""An odd number whose multiples are spread evenly over 64 bits."""
Content = Callable[[int, int, int], bytes]
"""Makes a value from partition, number in it, and timestamp."""
_STATUSES = ("placed", "paid", "packed", "shipped")


def write_records(
    address: str,
    topic: str,
    counts: Mapping[int, int],
    at_ms: int = INSTANT_MS,
    *,
    record_bytes: int = RECORD_BYTES,
    content_of: Content | None = None,
) -> None:
    """Write records to all partitions of a topic at the same time, and wait until they are there.

    :param counts: how many, by partition.
    :param at_ms: timestamp of each partition's first record; the others are spread over the hour after it.
    :param content_of: makes other values than :func:`value`.
    :raises AssertionError: when some records didn't arrive.
    """
    before = _ends(address, topic, counts)
    producer = Producer({"bootstrap.servers": address} | _PRODUCER)
    for start in range(0, max(counts.values()), _AT_ONCE):
        for partition, count in counts.items():
            while len(producer) > _WAITING:
                producer.poll(0.01)
            for number in range(start, min(count, start + _AT_ONCE)):
                moment_ms = at_ms + number * HOUR_MS // count
                if content_of is None:
                    content: str | bytes = value(partition, number, moment_ms, record_bytes)
                else:
                    content = content_of(partition, number, moment_ms)
                producer.produce(topic, content, partition=partition, timestamp=moment_ms)
    producer.flush(_PATIENCE_S)
    after = _ends(address, topic, counts)
    if any(after[each] - before[each] != count for each, count in counts.items()):
        arrived = sum(after.values()) - sum(before.values())
        raise AssertionError(f"{arrived:,} of {sum(counts.values()):,} records arrived in {topic}")


def value(partition: int, number: int, moment_ms: int, record_bytes: int = RECORD_BYTES) -> str:
    """An order.

    :param number: the record's number in its partition.
    :param record_bytes: its size.
    """
    mixed = ((partition << 40) + number) * _MIXER & 0xFFFF_FFFF_FFFF_FFFF
    fields = (
        f'{{"order":"{partition:05}-{number:010}","placed_at":{moment_ms},"customer":"c-{mixed % 2_000_003:07}",'
        f'"status":"{_STATUSES[mixed >> 62]}","currency":"EUR","total":{mixed % 100_000 / 100},'
        f'"items":[{{"sku":"{mixed >> 40:08x}","quantity":{mixed % 7 + 1}}}],"store":"s-{mixed % 997:03}","trace":"'
    )
    digits = record_bytes - len(fields) - len('"}')
    return f'{fields}{shake_128(mixed.to_bytes(8)).hexdigest(digits // 2 + 1)[:digits]}"}}'


def _ends(address: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    with client(address) as ours:
        listed = ours.list_offsets((TopicPartition(topic, each) for each in partitions), OffsetSpec.LATEST)
        return {each.partition: each.offset or 0 for each in listed.raise_for_errors()}
