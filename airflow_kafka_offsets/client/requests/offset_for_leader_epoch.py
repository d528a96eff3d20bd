"""OffsetForLeaderEpoch (key 23, KIP-101, KIP-320): where a leader epoch ends in a log, from the partition leader.

Versions: 1 returns the epoch that the answer is about (KIP-279), 2 adds the current leader epoch to the request and the
throttle time to the response (KIP-320), 3 requires only Describe on the topic, 4 is flexible. Before version 2, a
leader that has been replaced would answer for its own log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from airflow_kafka_offsets.client.connection.wire import or_minus_one, or_none, response_error
from airflow_kafka_offsets.client.routing.fan_out import ask_leaders
from airflow_kafka_offsets.client.routing.metadata import Epochs
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd, LogEpoch
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic

FIRST_VERSION = 2
_CONSUMER = -1
"""The replica id of clients that aren't brokers."""


def offset_for_leader_epoch_request(asked: Mapping[TopicPartition, int], current: Epochs, version: int) -> Any:
    """A request for one leader.

    :param asked: the epoch whose end is requested, by partition.
    :param current: the current leader epoch of a partition; None if unknown, which skips the broker's check.
    """

    def row(piece: TopicPartition) -> tuple[int, int, int]:
        return piece.partition, or_minus_one(current(piece)), asked[piece]

    return OffsetForLeaderEpochRequest[version](
        replica_id=_CONSUMER, topics=[(topic, list(map(row, pieces))) for topic, pieces in by_topic(asked).items()]
    )


def parse_offset_for_leader_epoch(response: Any) -> dict[TopicPartition, EpochEnd]:
    """The answers of one leader."""
    return {
        TopicPartition(topic.topic, answer.partition): EpochEnd(
            topic.topic,
            answer.partition,
            or_none(answer.leader_epoch),
            or_none(answer.end_offset),
            response_error(answer.error_code),
        )
        for topic in response.topics
        for answer in topic.partitions
    }


async def fetch_epoch_ends(session: Session, epochs: Iterable[LogEpoch]) -> dict[LogEpoch, EpochEnd]:
    """Ask all leaders concurrently; returns an element for every epoch, in order, by the deadline. A request names each
    partition once, so several epochs of one partition go into several concurrent requests."""
    rounds: list[dict[TopicPartition, int]] = []
    wanted = sorted(set(epochs))
    for epoch in wanted:
        key = TopicPartition.of(epoch)
        free = next((one for one in rounds if key not in one), None)
        if free is None:
            rounds.append(free := {})
        free[key] = epoch.leader_epoch

    async def ask(asked: Mapping[TopicPartition, int]) -> dict[LogEpoch, EpochEnd]:
        ends = await ask_leaders(
            session,
            asked,
            OffsetForLeaderEpochRequest,
            build=lambda pieces, version, _: offset_for_leader_epoch_request(
                {piece: asked[piece] for piece in pieces}, session.leaders.epoch, version
            ),
            parse=parse_offset_for_leader_epoch,
            failed=lambda piece, error: EpochEnd(*piece, error=error),
            at_least=FIRST_VERSION,
        )
        return {LogEpoch(end.topic, end.partition, asked[TopicPartition.of(end)]): end for end in ends}

    answers = await session.beside(*(partial(ask, asked) for asked in rounds))
    found = {epoch: end for answer in answers for epoch, end in answer.items()}
    return {epoch: found[epoch] for epoch in wanted}
