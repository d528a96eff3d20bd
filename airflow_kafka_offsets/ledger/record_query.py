"""Record queries by partition or key, and by offset or instant; and a ledger's answers, for commands and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions, partitions_of_key, refuse_unknown_topic
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.whereabouts import Whereabouts, find
from airflow_kafka_offsets.ledger.windows_at import WindowsAt, find_at


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records to look up.

    :param topic: their topic.
    :param partition: their partition; None for all, or when the key decides.
    :param key: the record key's bytes, which decide the partition; None to ignore it.
    :param offset: the record's offset; None to ignore it.
    :param at_ms: an instant in the records' window, Unix milliseconds; None to ignore it.
    :raises ConfigurationError: when these contradict each other, or don't identify records.
    """

    topic: str
    partition: int | None = None
    key: bytes | None = None
    offset: int | None = None
    at_ms: int | None = None

    def __post_init__(self) -> None:
        if self.partition is not None and self.key is not None:
            raise ConfigurationError(
                f"Give a partition or a key, not both: you gave partition {self.partition}, but the key determines "
                "its partition. Leave the partition out."
            )
        if self.offset is not None and self.at_ms is not None:
            raise ConfigurationError(
                f"Give an offset or an instant (at), not both: offset {self.offset} is one record, whatever its "
                "timestamp. Leave the instant out."
            )
        placed = self.partition is not None or self.key is not None
        if self.offset is not None and not placed:
            raise ConfigurationError(
                f"Offset {self.offset} is a different record in each partition of {self.topic}: give the partition, or "
                "the record's key."
            )
        if self.offset is None and self.at_ms is None and self.key is None:
            where = "" if self.partition is None else f" of {self.topic}-{self.partition}"
            raise ConfigurationError(f"Which record{where}? Give an offset, an instant (at), or a key.")


@dataclass(frozen=True, slots=True)
class Findings:
    """The answer to a query.

    :param key: partitions that the query's key may be in; None when the query has no key.
    :param places: where the record at the query's offset is, for each partition it may be in; empty when the query has
        no offset.
    :param at: the windows that contain the query's instant; None when the query has no instant.
    """

    key: KeyPartitions | None
    places: Mapping[int, Whereabouts]
    at: WindowsAt | None

    def windows(self) -> frozenset[str]:
        """The windows that have, or had, the records."""
        places = [*self.places.values()] if self.at is None else [each.place for each in self.at.windows]
        named = () if self.at is None else (*self.at.forgotten, self.at.first)
        return frozenset(window for window in (*(place.window for place in places), *named) if window is not None)


def find_records(ledger: Ledger, query: RecordQuery) -> Findings:
    """Look up records.

    :raises ConfigurationError: when no window has them, and the last window doesn't have the topic; or, by key, when no
        snapshot says how many partitions the topic has.
    :raises LedgerError: when a file isn't what it should be.
    """
    key = None if query.key is None else partitions_of_key(ledger, query.topic, query.key)
    on = query.partition if key is None else key
    at = None if query.at_ms is None else find_at(ledger, query.topic, query.at_ms, on)
    found = Findings(key, _places(ledger, query, key), at)
    if key is None and not found.windows() and (last := ledger.last_pinned()) is not None:
        refuse_unknown_topic(query.topic, last.manifest.topics, ledger.uri)
    return found


def _places(ledger: Ledger, query: RecordQuery, key: KeyPartitions | None) -> dict[int, Whereabouts]:
    if query.offset is None:
        return {}
    partitions = key.partitions() if key is not None else [query.partition]
    return {each: find(ledger, query.topic, each, query.offset) for each in partitions if each is not None}
