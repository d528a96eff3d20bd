"""Topics, as their cluster describes them: id, partitions and the settings that windows depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a cluster says about a topic, as far as windows depend on it.

    :param topic_id: distinguishes a re-created topic from the old one (KIP-516); None from brokers before 2.8.
    :param partition_count: number of partitions.
    :param cleanup_policy: ``delete``, ``compact`` or both, joined by a comma; None when it may not be described.
    :param retention_ms: milliseconds; -1 means forever, as in Kafka's own setting; None when unknown.
    :param retention_bytes: bytes per partition; -1 means no limit; None when unknown.
    :param timestamp_type: ``CreateTime`` or ``LogAppendTime``; None when unknown.
    """

    topic: str
    topic_id: str | None
    partition_count: int
    cleanup_policy: str | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    timestamp_type: str | None = None

    @property
    def compacted(self) -> bool:
        """Whether records may vanish from the middle of the log (E11)."""
        return "compact" in (self.cleanup_policy or "")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without the name."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "topic"}

    @classmethod
    def from_json(cls, topic: str, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`; other keys are ignored."""
        return cls(topic, **{name: fields.get(name) for name in cls.__slots__ if name != "topic"})  # type: ignore[arg-type]
