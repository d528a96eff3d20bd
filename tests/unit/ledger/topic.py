"""A topic as a ledger sees it: it grows, loses records, is truncated, and has several lives."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Boundary, Evidence, OffsetSnapshot

PARTITIONS = (0, 1)


@dataclass(frozen=True)
class Record:
    """A record, which no other one equals."""

    id: int
    timestamp_ms: int
    epoch: int


@dataclass
class Topic:
    """A topic in one of its lives.

    :param id: of this life.
    :param cluster: the cluster that it is on.
    :param records: that its log has, or retention has deleted, by partition.
    :param starts: log start offsets.
    :param epoch: of the leader.
    """

    id: str
    cluster: str = "cluster-1"
    records: dict[int, list[Record]] = field(default_factory=lambda: {number: [] for number in PARTITIONS})
    starts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    epoch: int = 1

    def first_at(self, partition: int, at_ms: int) -> int | None:
        """What a look-up by time finds."""
        records, start = self.records[partition], self.starts[partition]
        return next((offset for offset in range(start, len(records)) if records[offset].timestamp_ms >= at_ms), None)

    def end_of(self, partition: int, epoch: int) -> tuple[int, int]:
        """The newest epoch that isn't above one, and where it ends (OffsetForLeaderEpoch)."""
        records = self.records[partition]
        end = next((offset for offset, record in enumerate(records) if record.epoch > epoch), len(records))
        return (records[end - 1].epoch if end else epoch), end

    def truncated_below(self, known: OffsetSnapshot) -> tuple[SeenOffset, ...]:
        """Where logs were truncated below a snapshot's offsets."""
        found = []
        for key, boundary in known.boundaries.items():
            epoch, end = self.end_of(key.partition, boundary.leader_epoch or 0)
            if end < boundary.offset:
                found.append(SeenOffset(*key, end, epoch))
        return tuple(found)

    def snapshot(self, as_of: AsOf, now_ms: int) -> OffsetSnapshot:
        """As leaders answer."""
        boundaries = {}
        for number in PARTITIONS:
            records, start = self.records[number], self.starts[number]
            found = None if as_of.timestamp_ms is None else self.first_at(number, as_of.timestamp_ms)
            offset = start if as_of.kind is AsOfKind.EARLIEST else len(records) if found is None else found
            epoch = self.epoch if found is None else records[found].epoch
            evidence = Evidence.LOG_END if found is None else Evidence.MATCHED
            boundaries[TopicPartition("t", number)] = Boundary(
                *("t", number, offset, evidence, None, epoch, start, len(records), len(records), self.epoch)
            )
        facts = {"t": TopicFacts("t", self.id, len(PARTITIONS), "delete", -1, -1, "CreateTime")}
        return OffsetSnapshot(as_of, self.cluster, IsolationLevel.READ_COMMITTED, now_ms, facts, boundaries)
