"""The partitions that a record's key may be in: one for each partition count that the ledger's snapshots know of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from airflow_kafka_offsets.errors import ConfigurationError, number_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.snapshot_index import Entry
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.keys import partition_of_key

_PARTITIONER = (
    "The partition is that of murmur2, the default of Kafka's Java client and of kafka-python. A producer with another "
    "partitioner puts the key elsewhere: that of librdkafka, and so of confluent-kafka, is CRC32 by default."
)
_OTHER_COUNTS = "Records that were written when the topic had another number of partitions may be elsewhere."


@dataclass(frozen=True, slots=True)
class KeyPartition:
    """Where a key is, as long as a topic has so many partitions.

    :param partition: the partition.
    :param partition_count: how many partitions the topic has.
    :param since_ms: of the first snapshot that found so many, Unix milliseconds. They may have been added before; or
        after it, where that snapshot was resolved later than its instant.
    """

    partition: int
    partition_count: int
    since_ms: int

    def __str__(self) -> str:
        counted = number_of(self.partition_count, "partition")
        return f"{counted} from {iso_instant(self.since_ms)} on, where the key is in {self.partition}"


@dataclass(frozen=True, slots=True)
class KeyPartitions:
    """Where a key may be.

    :param key: its bytes.
    :param known: by each partition count that is known, the newest one first; at least one.
    """

    key: bytes
    known: tuple[KeyPartition, ...]

    def partitions(self) -> list[int]:
        """The partitions that it may be in, each once."""
        return list(dict.fromkeys(each.partition for each in self.known))

    def partitions_up_to(self, partition_count: int) -> set[int]:
        """The partitions that it may be in of a window in whose time the topic came to have so many partitions: by that
        count, and by each lower one that is known, as producers may have written by one of them."""
        counts = {each.partition_count for each in self.known if each.partition_count < partition_count}
        return {partition_of_key(self.key, count) for count in (*counts, partition_count)}

    def remarks(self) -> list[str]:
        """What has to hold for the answer to be true."""
        if len(self.known) == 1:
            counted = number_of(self.known[0].partition_count, "partition")
            return [_PARTITIONER, f"All snapshots know of {counted}. {_OTHER_COUNTS}"]
        told = ", then ".join(map(str, reversed(self.known)))
        return [_PARTITIONER, f"Partitions were added. The snapshots know of {told}. {_OTHER_COUNTS}"]


def partitions_of_key(ledger: Ledger, topic: str, key: bytes) -> KeyPartitions:
    """Where a key may be. A long log of snapshots takes a dozen reads: the counts never fall along it.

    :raises ConfigurationError: when there is no snapshot; or neither the newest one nor the last one in time has the
        topic.
    :raises LedgerError: when a snapshot isn't what it should be.
    """
    entries = ledger.snapshots.entries()
    if not entries:
        raise ConfigurationError(
            f"{ledger.uri} has no snapshot yet, so it isn't known how many partitions {topic!r} has. Give the "
            "partition."
        )
    chain = [entry for entry in entries if entry.chained]
    newest = max(entries, key=lambda entry: entry.number)
    read = cache(ledger.snapshots.read)
    # The newest one may be a backfill's, which leaves out what was added after its instant.
    topics = {found for entry in (newest, *chain[-1:]) for found in read(entry.number).topics}
    refuse_unknown_topic(topic, topics, ledger.uri)

    def count(entry: Entry) -> int:
        """0 before the topic was added."""
        facts = read(entry.number).topics.get(topic)
        return 0 if facts is None else facts.partition_count

    firsts = {count(entry): entry.timestamp_ms for entry in (*chain[:1], *_changes(chain, count))}
    # It need not be the last one in time.
    firsts.setdefault(count(newest), newest.timestamp_ms)
    known = (KeyPartition(partition_of_key(key, each), each, since) for each, since in firsts.items() if each)
    return KeyPartitions(key, tuple(sorted(known, key=lambda each: each.partition_count, reverse=True)))


def refuse_unknown_topic(topic: str, known: Collection[str], uri: str) -> None:
    """Refuse a topic that a ledger doesn't have, as a person may misspell one.

    :param known: the topics that it has.
    :param uri: where the ledger is.
    :raises ConfigurationError: naming those that it has.
    """
    if topic not in known:
        raise ConfigurationError(f"{uri} has no topic {topic!r}; it has {', '.join(sorted(known))}.")


def _changes(entries: Sequence[Entry], count: Callable[[Entry], int]) -> Iterator[Entry]:
    """The entries that know of another count than the one before them does."""
    if len(entries) < 2 or count(entries[0]) == count(entries[-1]):
        return
    if len(entries) == 2:
        yield entries[1]
        return
    middle = len(entries) // 2
    yield from _changes(entries[: middle + 1], count)
    yield from _changes(entries[middle:], count)
