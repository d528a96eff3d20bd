"""A record query: which records are asked for, by partition or key, and by offset or instant. Nothing is looked up
here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records are asked for.

    :param topic: their topic.
    :param partition: their partition; None where the key decides, and for all of them.
    :param key: the key's bytes, which decide about the partition; None where it doesn't count.
    :param offset: the record's offset; None where it isn't asked for.
    :param at_ms: an instant in the records' window, Unix milliseconds; None where it isn't asked for.
    :raises ConfigurationError: when these contradict each other, or don't tell which records.
    """

    topic: str
    partition: int | None = None
    key: bytes | None = None
    offset: int | None = None
    at_ms: int | None = None

    def __post_init__(self) -> None:
        if self.partition is not None and self.key is not None:
            raise ConfigurationError(
                f"Give a partition or a key, not both: you gave partition {self.partition}, and the key says itself "
                "which partition it is in. Leave the partition out."
            )
        if self.offset is not None and self.at_ms is not None:
            raise ConfigurationError(
                f"Give an offset or an instant (at), not both: offset {self.offset} is one record, whatever its time "
                "is. Leave the instant out."
            )
        placed = self.partition is not None or self.key is not None
        if self.offset is not None and not placed:
            raise ConfigurationError(
                f"Offset {self.offset} is another record in each partition of {self.topic}: give the partition, or "
                "the record's key."
            )
        if self.offset is None and self.at_ms is None and self.key is None:
            where = "" if self.partition is None else f" of {self.topic}-{self.partition}"
            raise ConfigurationError(f"Which record{where}? Give an offset, an instant (at), or a key.")


def refuse_unknown_topic(topic: str, known: Collection[str], uri: str) -> None:
    """Refuse a topic that a ledger doesn't have, as a person may misspell one.

    :param known: the topics that it has.
    :param uri: where the ledger is.
    :raises ConfigurationError: naming those that it has.
    """
    if topic not in known:
        raise ConfigurationError(f"{uri} has no topic {topic!r}; it has {', '.join(sorted(known))}.")
