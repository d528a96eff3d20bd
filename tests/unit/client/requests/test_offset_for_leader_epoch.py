"""OffsetForLeaderEpoch as Apache Kafka's own classes write it."""

from __future__ import annotations

from airflow_kafka_offsets.client.connection.wire import named_error
from airflow_kafka_offsets.client.requests.offset_for_leader_epoch import (
    FIRST_VERSION,
    offset_for_leader_epoch_request,
    parse_offset_for_leader_epoch,
)
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.unit.client.requests.golden.frames import Frame, encoded, every, frames

FLIGHTS_0, FLIGHTS_2, WEATHER_1 = (
    TopicPartition("flights", 0),
    TopicPartition("flights", 2),
    TopicPartition("weather", 1),
)


@every(frames("offset_for_leader_epoch", "request", since=FIRST_VERSION))
def test_epochs_are_asked_for_as_kafkas_consumer_asks(frame: Frame) -> None:
    asked, current = {WEATHER_1: 0, FLIGHTS_2: 0, FLIGHTS_0: 5}, {FLIGHTS_0: 7, WEATHER_1: 0}
    assert encoded(offset_for_leader_epoch_request(asked, current.get, frame.version)).hex() == frame.bytes.hex()


@every(frames("offset_for_leader_epoch", "response", since=FIRST_VERSION))
def test_an_end_is_told_from_an_unknown_epoch_and_from_an_error(frame: Frame) -> None:
    assert parse_offset_for_leader_epoch(frame.decode()) == {
        FLIGHTS_0: EpochEnd("flights", 0, 3, 2**40),
        FLIGHTS_2: EpochEnd("flights", 2),
        WEATHER_1: EpochEnd("weather", 1, error=named_error(74, "")),
    }
