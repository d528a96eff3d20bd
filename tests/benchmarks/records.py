"""Records for benchmarks of reading: very many of one size, in batches as a producer with its defaults makes them.

A batch is made once and sent again and again, as a broker gives each one offsets of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from dev import raw_client
from tests.benchmarks.clusters import INSTANT_MS

RECORD_BYTES = 100
BATCH_RECORDS = 140
"""So many of them fill ``batch.size``, 16 KiB."""

_PRODUCE_VERSION = 9
_TIMEOUT_S = 60


def write_batches(
    address: str,
    topic: str,
    batches: Mapping[int, int],
    at_ms: int = INSTANT_MS,
    *,
    records: int = BATCH_RECORDS,
    record_bytes: int = RECORD_BYTES,
) -> None:
    """Write batches of records by one connection.

    :param batches: how many, by partition.
    :param at_ms: timestamp of all records.
    :param records: of a batch.
    """
    produce_batches(address, topic, batches, _batch(at_ms, records, record_bytes))


def produce_batches(address: str, topic: str, batches: Mapping[int, int], batch: bytes) -> None:
    """Write one batch again and again.

    :param batches: how often, by partition.
    """
    left = dict(batches)
    with raw_client.connected(address, timeout_s=_TIMEOUT_S) as connection:
        while left:
            _produce(connection, topic, list(left), batch)
            left = {partition: count - 1 for partition, count in left.items() if count > 1}


def _produce(connection: raw_client.socket.socket, topic: str, partitions: list[int], batch: bytes) -> None:
    topic_class = ProduceRequest.TopicProduceData
    pieces = [topic_class.PartitionProduceData(index=each, records=batch) for each in partitions]
    data = [topic_class(name=topic, partition_data=pieces)]
    raw_client.send(connection, ProduceRequest(acks=1, timeout_ms=_TIMEOUT_S * 1000, topic_data=data), _PRODUCE_VERSION)
    raw_client.receive(connection, ProduceResponse, _PRODUCE_VERSION)


def _batch(at_ms: int, records: int, record_bytes: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for number in range(records):
        builder.append(number, at_ms, None, os.urandom(record_bytes), [])
    return bytes(builder.build())
