"""Record batches as a test made them, sent as they are: with timestamps, say, that no producer would take."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka.protocol.producer import ProduceRequest, ProduceResponse

from dev import raw_client

_PRODUCE_VERSION = 9
_TIMEOUT_S = 60
_PAUSE_S = 0.1


def produce_batches(address: str, topic: str, batches: Mapping[int, int], batch: bytes) -> None:
    """Write one batch again and again.

    :param batches: how often, by partition.
    :raises TimeoutError: partitions don't take it.
    """
    left = dict(batches)
    deadline = time.monotonic() + _TIMEOUT_S
    with raw_client.connected(address, timeout_s=_TIMEOUT_S) as connection:
        while left:
            errors = _produce(connection, topic, list(left), batch)
            if not any(errors.values()):
                deadline = time.monotonic() + _TIMEOUT_S
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{topic} takes no batch: Kafka's error codes by partition are {errors}")
            else:
                time.sleep(_PAUSE_S)  # a new topic's leader may not know yet that it is one
            after = {partition: count - (not errors[partition]) for partition, count in left.items()}
            left = {partition: count for partition, count in after.items() if count}


def _produce(connection: raw_client.socket.socket, topic: str, partitions: list[int], batch: bytes) -> dict[int, int]:
    """Kafka's error codes, by partition."""
    topic_class = ProduceRequest.TopicProduceData
    pieces = [topic_class.PartitionProduceData(index=each, records=batch) for each in partitions]
    data = [topic_class(name=topic, partition_data=pieces)]
    raw_client.send(connection, ProduceRequest(acks=1, timeout_ms=_TIMEOUT_S * 1000, topic_data=data), _PRODUCE_VERSION)
    response = raw_client.receive(connection, ProduceResponse, _PRODUCE_VERSION)
    return {each.index: each.error_code for answer in response.responses for each in answer.partition_responses}
