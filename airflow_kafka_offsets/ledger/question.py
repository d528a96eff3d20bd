"""A question: which records are asked for, by partition or key, and by offset or time. Nothing is looked up here."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Question:
    """Which records are asked for.

    :param topic: their topic.
    :param partition: their partition; None where the key decides, and for all of them.
    :param key: the key's bytes, which decide about the partition; None where it doesn't count.
    :param offset: the record's offset; None where it isn't asked for.
    :param at_ms: the records' time, Unix milliseconds; None where it isn't asked for.
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
                f"Give an offset or a time, not both: offset {self.offset} is one record, whatever its time is. "
                "Leave the time out."
            )
        placed = self.partition is not None or self.key is not None
        if self.offset is not None and not placed:
            raise ConfigurationError(
                f"Offset {self.offset} is another record in each partition of {self.topic}: give the partition, or "
                "the record's key."
            )
        if self.offset is None and self.at_ms is None and self.key is None:
            where = "" if self.partition is None else f" of {self.topic}-{self.partition}"
            raise ConfigurationError(f"Which record{where}? Give an offset, a time, or a key.")
