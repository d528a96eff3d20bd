"""What scripted brokers say of their log directories."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeLogDirsResponse

from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.scripted import Answer


class Directory(NamedTuple):
    """A log directory of a scripted broker.

    :param sizes: bytes by partition.
    :param copies: partitions whose log is still being copied to it.
    """

    sizes: Mapping[TopicPartition, int] = {}
    copies: Collection[TopicPartition] = ()
    error_code: int = 0


def directories_are(*directories: Directory, error_code: int = 0) -> Answer:
    """A DescribeLogDirs answer, whatever was asked for."""
    result_class = DescribeLogDirsResponse.DescribeLogDirsResult
    topic_class = result_class.DescribeLogDirsTopic

    def partition(number: int, size_bytes: int, is_copy: bool) -> Any:
        return topic_class.DescribeLogDirsPartition(
            partition_index=number, partition_size=size_bytes, offset_lag=0, is_future_key=is_copy
        )

    def result(number: int, directory: Directory) -> Any:
        topics = [
            topic_class(name=each.topic, partitions=[partition(each.partition, size, each in directory.copies)])
            for each, size in directory.sizes.items()
        ]
        return result_class(error_code=directory.error_code, log_dir=f"/logs/{number}", topics=topics)

    return lambda _: DescribeLogDirsResponse(
        error_code=error_code, results=[result(*each) for each in enumerate(directories)]
    )
