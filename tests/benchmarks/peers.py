"""Peers: the same questions asked with other clients, each in the best way that it offers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AdminClient,  # type: ignore[attr-defined]  # not in its __all__
    OffsetSpec,  # type: ignore[attr-defined]  # not in its __all__
)
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec as KafkaPythonSpec
from kafka.protocol.consumer import IsolationLevel
from kafka.structs import TopicPartition as KafkaPythonPartition

from airflow_kafka_offsets.offsets import partitions as ours

_TIMEOUT_S = 120
_TOPIC_SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type")


class Confluent:
    """confluent-kafka: librdkafka's admin client."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def total_lag(self, groups: Sequence[str], pieces: Iterable[ours.TopicPartition]) -> int:
        """Sum of the lag of groups on partitions. It can ask for only one group per request, so all are sent at once.

        It asks for all commits, which are on every partition here. Naming the partitions takes as long.
        """
        asked = [
            self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=_TIMEOUT_S)[
                group
            ]
            for group in groups
        ]
        commits = [each.result().topic_partitions for each in asked]
        ends = self.ends(pieces)
        return sum(ends[each.topic, each.partition] - each.offset for group in commits for each in group)

    def ends(self, pieces: Iterable[ours.TopicPartition]) -> dict[tuple[str, int], int]:
        """Log ends, by topic and partition."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*each): latest for each in pieces}
        found = self._admin.list_offsets(asked, request_timeout=_TIMEOUT_S)
        return {(key.topic, key.partition): each.result().offset for key, each in found.items()}


class KafkaPython:
    """kafka-python's admin client."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers, request_timeout_ms=_TIMEOUT_S * 1000)

    def close(self) -> None:
        self._admin.close()

    def matched(self, topic: str, timestamp_ms: int) -> int:
        """Ask everything that a survey at an instant asks. Returns how many partitions have a record at or after it."""
        (described,) = self._admin.describe_topics([topic])
        settings = dict.fromkeys(_TOPIC_SETTINGS)
        self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)], config_filter="all")
        pieces = [KafkaPythonPartition(topic, each["partition_index"]) for each in described["partitions"]]
        self._list(pieces, KafkaPythonSpec.EARLIEST)
        self._list(pieces, KafkaPythonSpec.LATEST)
        self._list(pieces, KafkaPythonSpec.LATEST, IsolationLevel.READ_COMMITTED)
        found = self._list(pieces, timestamp_ms, IsolationLevel.READ_COMMITTED)
        unmatched = [key for key in pieces if key not in found or found[key].offset < 0]
        self._list(unmatched, KafkaPythonSpec.MAX_TIMESTAMP)
        return len(pieces) - len(unmatched)

    def _list(
        self, pieces: list[Any], spec: Any, isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[Any, Any]:
        found: dict[Any, Any] = self._admin.list_partition_offsets(dict.fromkeys(pieces, spec), isolation_level)
        return found
