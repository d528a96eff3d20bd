"""Listed offsets: what leaders answered to ListOffsets (key 2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap
from airflow_kafka_offsets.offsets.specs import OffsetSpec


class ListOutcome(StrEnum):
    """What an answer without an error means."""

    FOUND = "found"
    """An offset satisfies the spec."""
    NO_RECORD = "no_record"
    """No visible record satisfies it: empty log, all records older, or the match isn't visible yet (E1)."""
    OLDER_THAN_ASKED = "older_than_asked"
    """The broker matched a record before the instant: not Apache Kafka's answer; don't trust it (E37)."""
    ERROR = "error"
    """Kafka answered with an error."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """What a leader answered for one partition and one spec.

    :param topic: topic name.
    :param partition: partition number.
    :param spec: what was asked.
    :param outcome: what the answer means.
    :param offset: first offset that satisfies the spec; None when there is none (see ``outcome``).
    :param timestamp_ms: the matched record's timestamp, Unix milliseconds; None for latest and earliest.
    :param leader_epoch: leader epoch of the record at that offset (v4+, KIP-320); None from older brokers.
    :param error: Kafka's error for this partition alone; its offset is then None.
    """

    topic: str
    partition: int
    spec: OffsetSpec
    outcome: ListOutcome
    offset: int | None = None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None
    error: ResponseError | None = None


class ListedOffsets(PartitionMap[ListedOffset]):
    """Answers to one spec, by partition."""

    asked = "Listing offsets"
    __slots__ = ()

    def refuse_older_answers(self) -> Self:
        """Return self when no broker matched a record older than asked (E37).

        :raises OffsetsError: naming the partitions.
        """
        error = ResponseError("INVALID_TIMESTAMP", 32, False, "the broker matched a record older than asked")
        older = [
            (f"{each.topic}-{each.partition}", error) for each in self if each.outcome is ListOutcome.OLDER_THAN_ASKED
        ]
        if older:
            raise OffsetsError("Looking up the instant", older)
        return self
