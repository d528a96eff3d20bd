"""DescribeLogDirs as Apache Kafka's own classes write it."""

from __future__ import annotations

from airflow_kafka_offsets.client.requests.describe_log_dirs import describe_log_dirs_request, parse_describe_log_dirs
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.unit.client.requests.golden.frames import Frame, encoded, every, frames

FLIGHTS_0, FLIGHTS_2, WEATHER_1 = (
    TopicPartition("flights", 0),
    TopicPartition("flights", 2),
    TopicPartition("weather", 1),
)
ASKED = [WEATHER_1, FLIGHTS_2, FLIGHTS_0]


@every(frames("describe_log_dirs", "request"))
def test_partitions_are_asked_for_as_kafka_asks(frame: Frame) -> None:
    assert encoded(describe_log_dirs_request(ASKED, frame.version)).hex() == frame.bytes.hex()


@every(frames("describe_log_dirs", "response", "two directories, a copy, and an error"))
def test_sizes_are_those_of_the_logs_in_use_and_what_is_missing_may_lie_in_the_broken_directory(frame: Frame) -> None:
    sizes = parse_describe_log_dirs(frame.decode(), ASKED)
    assert {piece: each.size_bytes for piece, each in sizes.items()} == {
        FLIGHTS_0: 2**40,
        FLIGHTS_2: 0,
        WEATHER_1: None,
    }
    assert str(sizes[WEATHER_1].error) == "KAFKA_STORAGE_ERROR (56)"


@every(frames("describe_log_dirs", "response", "not allowed to ask"))
def test_who_may_not_ask_is_told_so_for_each_partition(frame: Frame) -> None:
    sizes = parse_describe_log_dirs(frame.decode(), ASKED)
    assert {each.error.name for each in sizes.values() if each.error} == {"CLUSTER_AUTHORIZATION_FAILED"}
    assert len(sizes) == 3
