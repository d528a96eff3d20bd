"""Listing: ListOffsets asked of all leaders at the same time, in bulk where a leader speaks version 6 or later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.client.connection.framing import BulkRequest
from airflow_kafka_offsets.client.requests.list_offsets import (
    FLOORS,
    failed_listing,
    list_offsets_request,
    parse_list_offsets,
)
from airflow_kafka_offsets.client.requests.list_offsets_bulk import (
    FIRST_VERSION,
    Listing,
    decode_list_offsets,
    encode_list_offsets,
)
from airflow_kafka_offsets.client.routing.leader_requests import LeaderRequest, ask_leaders
from airflow_kafka_offsets.client.routing.session import Call
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec


async def fetch_list_offsets(
    call: Call, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation_level: IsolationLevel
) -> ListedOffsets:
    """An element for every partition, by the deadline."""

    def build(pieces: list[TopicPartition], version: int, timeout_ms: int) -> Any:
        write = list_offsets_request if version < FIRST_VERSION else encode_list_offsets
        epochs = call.leaders.epoch
        written = write(pieces, spec, isolation_level, epochs=epochs, timeout_ms=timeout_ms, version=version)
        if version < FIRST_VERSION:
            return written
        return BulkRequest(ListOffsetsRequest[version](), lambda body: decode_list_offsets(body, spec), written)

    def parse(answer: Any) -> Any:
        return answer.listed if isinstance(answer, Listing) else parse_list_offsets(answer, spec)

    request: LeaderRequest[ListedOffset] = LeaderRequest(
        ListOffsetsRequest,
        build=build,
        parse=parse,
        failed=lambda piece, error: failed_listing(piece, spec, error),
        at_least=FLOORS.get(spec.kind, 0),
    )
    return ListedOffsets(await ask_leaders(call, request, partitions))
