"""The partitions that a record's key may be in: one for each partition count recorded in the ledger's snapshots."""

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
    "The partition is computed with murmur2, the default of Kafka's Java client and of kafka-python. A producer with "
    "another partitioner puts the key elsewhere: librdkafka, and so confluent-kafka, uses CRC32 by default."
)
_OTHER_COUNTS = "Records written when the topic had a different number of partitions may be elsewhere."


@dataclass(frozen=True, slots=True)
class KeyPartition:
    """The partition of a key while its topic has a certain number of partitions.

    :param partition: the partition.
    :param partition_count: number of partitions of the topic.
    :param since_ms: time of the first snapshot with that count, Unix milliseconds. Partitions may have been added
        before it; or after it, if that snapshot was resolved later than its instant.
    """

    partition: int
    partition_count: int
    since_ms: int

    def __str__(self) -> str:
        counted = number_of(self.partition_count, "partition")
        return f"{counted} from {iso_instant(self.since_ms)} on, which puts the key in partition {self.partition}"


@dataclass(frozen=True, slots=True)
class KeyPartitions:
    """The partitions that a key may be in.

    :param key: the key's bytes.
    :param known: one element for each known partition count, newest first; at least one.
    """

    key: bytes
    known: tuple[KeyPartition, ...]

    def partitions(self) -> list[int]:
        """The partitions that the key may be in, each once."""
        return list(dict.fromkeys(each.partition for each in self.known))

    def partitions_up_to(self, partition_count: int) -> set[int]:
        """The partitions that the key may be in, within a window by whose end the topic had this many partitions: the
        one by that count, and the ones by each lower known count, which producers may have used."""
        counts = {each.partition_count for each in self.known if each.partition_count < partition_count}
        return {partition_of_key(self.key, count) for count in (*counts, partition_count)}

    def remarks(self) -> list[str]:
        """The assumptions behind the answer, in sentences."""
        if len(self.known) == 1:
            counted = number_of(self.known[0].partition_count, "partition")
            return [_PARTITIONER, f"All snapshots have {counted}. {_OTHER_COUNTS}"]
        told = ", then ".join(map(str, reversed(self.known)))
        return [_PARTITIONER, f"Partitions were added. The snapshots have {told}. {_OTHER_COUNTS}"]


def partitions_of_key(ledger: Ledger, topic: str, key: bytes) -> KeyPartitions:
    """The partitions that a key may be in. Even a long log of snapshots takes about a dozen reads, because partition
    counts never fall.

    :raises ConfigurationError: when there is no snapshot; or neither the newest snapshot nor the last one in time has
        the topic.
    :raises LedgerError: when a snapshot isn't what it should be.
    """
    entries = ledger.snapshots.entries()
    if not entries:
        raise ConfigurationError(
            f"{ledger.uri} has no snapshot yet, so the number of partitions of {topic!r} is unknown. Give the "
            "partition instead of the key."
        )
    chain = [entry for entry in entries if entry.chained]
    newest = max(entries, key=lambda entry: entry.number)
    read = cache(ledger.snapshots.read)
    # The newest snapshot may be from a backfill, which leaves out partitions that were added after its instant.
    topics = {found for entry in (newest, *chain[-1:]) for found in read(entry.number).topics}
    refuse_unknown_topic(topic, topics, ledger.uri)

    def count(entry: Entry) -> int:
        """0 before the topic was added."""
        facts = read(entry.number).topics.get(topic)
        return 0 if facts is None else facts.partition_count

    firsts = {count(entry): entry.timestamp_ms for entry in (*chain[:1], *_changes(chain, count))}
    # The newest snapshot need not be the last one in time.
    firsts.setdefault(count(newest), newest.timestamp_ms)
    known = (KeyPartition(partition_of_key(key, each), each, since) for each, since in firsts.items() if each)
    return KeyPartitions(key, tuple(sorted(known, key=lambda each: each.partition_count, reverse=True)))


def refuse_unknown_topic(topic: str, known: Collection[str], uri: str) -> None:
    """Refuse a topic that a ledger doesn't have, such as a misspelt one.

    :param known: the ledger's topics.
    :param uri: the ledger's URI.
    :raises ConfigurationError: naming the ledger's topics.
    """
    if topic not in known:
        raise ConfigurationError(f"{uri} has no topic {topic!r}; it has {', '.join(sorted(known))}.")


def _changes(entries: Sequence[Entry], count: Callable[[Entry], int]) -> Iterator[Entry]:
    """The entries whose count differs from that of the entry before."""
    if len(entries) < 2 or count(entries[0]) == count(entries[-1]):
        return
    if len(entries) == 2:
        yield entries[1]
        return
    middle = len(entries) // 2
    yield from _changes(entries[: middle + 1], count)
    yield from _changes(entries[middle:], count)
