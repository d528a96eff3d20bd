"""The oracle: what a topic and a group really hold, read record by record by another client library.

It is librdkafka, and shares no code with what it judges. It fetches every record of every partition twice, as a reader
of committed records and as a reader of all of them, and looks at nothing else: an offset that neither gets holds a
transaction marker (nothing is ever compacted here), one that only the second gets was aborted or isn't decided yet.
From that, functions on plain values say which answers of a condition are right.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.patience import PATIENCE_S

CLOCK_MARGIN_MS = 4_000
"""Around the end of a grace period, either answer is right: the two clocks are read at two moments."""

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
LEVELS = (COMMITTED, UNCOMMITTED)
_ADMIN_LEVELS = {COMMITTED: IsolationLevel.READ_COMMITTED, UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED}


class Verdict(StrEnum):
    """What a condition can say."""

    DONE = "done"
    WAITING = "waiting"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Record:
    """A record that a reader got; its timestamp in Unix milliseconds."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """Everything in one partition's log.

    :param committed: what a reader of committed records gets, in order.
    :param every: what a reader of all records gets, in order: aborted and undecided ones too.
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    committed: tuple[Record, ...]
    every: tuple[Record, ...]

    def visible(self, level: str) -> tuple[Record, ...]:
        return self.committed if level == COMMITTED else self.every

    def end(self, level: str) -> int:
        return self.last_stable_offset if level == COMMITTED else self.high_watermark

    def first(self, commit: int | None) -> int:
        """The first offset that a group would read."""
        return self.log_start_offset if commit is None else max(commit, self.log_start_offset)

    def has_visible(self, level: str, start: int, end: int | None = None) -> bool:
        """Whether a reader gets a record at or after ``start``, and before ``end`` if there is one."""
        return any(start <= each.offset and (end is None or each.offset < end) for each in self.visible(level))

    @property
    def tail(self) -> str:
        """What the last offset of the log holds: ``nothing``, a ``marker``, or a record that is ``data`` or ``hidden``
        from readers of committed ones.
        """
        last = self.high_watermark - 1
        if last < self.log_start_offset:
            return "nothing"
        if not self.every or self.every[-1].offset < last:
            return "marker"
        return "data" if self.committed and self.committed[-1].offset == last else "hidden"

    def __str__(self) -> str:
        """The log, offset by offset."""
        stamps = {each.offset: each.timestamp_ms for each in self.every}
        good = {each.offset for each in self.committed}

        def word(offset: int) -> str:
            if offset not in stamps:
                return f"{offset}:marker"
            fate = "" if offset in good else " undecided" if offset >= self.last_stable_offset else " aborted"
            return f"{offset}:@{stamps[offset]}{fate}"

        words = ", ".join(map(word, range(self.log_start_offset, self.high_watermark)))
        return f"start {self.log_start_offset}, LSO {self.last_stable_offset}, HW {self.high_watermark} [{words}]"


Logs = Mapping[int, PartitionLog]
"""The log of each partition of one topic."""
Offsets = Mapping[int, int]
"""An offset by partition of one topic: what a group committed, or a target."""


def group_is_caught_up(logs: Logs, commits: Offsets, level: str, *, no_commit: str = "from_log_start") -> Verdict:
    """Whether nothing is left to read for a group that exists."""
    if any(commit > logs[number].high_watermark for number, commit in commits.items()):
        return Verdict.ERROR
    judged = {number: log for number, log in logs.items() if no_commit != "ignore" or number in commits}
    if no_commit == "wait" and judged.keys() - commits.keys():
        return Verdict.WAITING
    left = any(_is_left(log, commits.get(number), level) for number, log in judged.items())
    return Verdict.WAITING if left else Verdict.DONE


def _is_left(log: PartitionLog, commit: int | None, level: str, end: int | None = None) -> bool:
    """Whether something is left to read, or was deleted before it was read: nobody knows then what it was."""
    lost = commit is not None and commit < log.log_start_offset
    return lost or log.has_visible(level, log.first(commit), end)


def window_is_complete(
    logs: Logs, instant_ms: int, level: str, *, now_ms: int, append_grace_ms: int | None
) -> frozenset[Verdict]:
    """Whether an instant has passed on every partition.

    :param append_grace_ms: on a topic of LogAppendTime, how long after the instant nothing from before it can come.
    """
    behind = [log for log in logs.values() if not any(each.timestamp_ms >= instant_ms for each in log.visible(level))]
    if not behind:
        return frozenset({Verdict.DONE})
    if append_grace_ms is None or any(log.end(level) < log.high_watermark for log in behind):
        return frozenset({Verdict.WAITING})
    over_ms = now_ms - instant_ms - append_grace_ms
    if abs(over_ms) <= CLOCK_MARGIN_MS:
        return frozenset({Verdict.DONE, Verdict.WAITING})
    return frozenset({Verdict.DONE if over_ms > 0 else Verdict.WAITING})


def target_is_reached(logs: Logs, commits: Offsets, target: Offsets, level: str) -> Verdict:
    """Whether a group has read everything below a target that was the end of the log once."""
    if any(commits.get(number, 0) > logs[number].high_watermark for number in target):
        return Verdict.ERROR
    left = any(
        commits.get(number, 0) < end and _is_left(logs[number], commits.get(number), level, end)
        for number, end in target.items()
    )
    return Verdict.WAITING if left else Verdict.DONE


def has_new_data(logs: Logs, since: Offsets, level: str) -> Verdict:
    """Whether a record has come at or after some offsets; a partition without one counts from its start."""
    new = any(log.has_visible(level, since.get(number, 0)) for number, log in logs.items())
    return Verdict.DONE if new else Verdict.WAITING


class Oracle:
    """Reads topics and groups of one cluster. For one thread."""

    def __init__(self, bootstrap_servers: str) -> None:
        common = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        reading: dict[str, Any] = {
            "group.id": "oracle",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 5,
            "fetch.error.backoff.ms": 20,
            "check.crcs": True,
        }
        self._admin = AdminClient(common)
        self._readers = {level: Consumer(common | reading | {"isolation.level": level}) for level in LEVELS}

    def close(self) -> None:
        for each in self._readers.values():
            each.close()

    def commits(self, group: str, topic: str) -> dict[int, int]:
        """What a group has committed on a topic, by partition; empty also when there is no such group.

        :raises KafkaException: its coordinator can't say now.
        """
        asked = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._admin.list_consumer_group_offsets(asked, require_stable=True).values()
        found = future.result(PATIENCE_S).topic_partitions
        return {each.partition: each.offset for each in found if each.topic == topic and each.offset >= 0}

    def ends(self, topic: str, partitions: int) -> list[tuple[int, int, int]]:
        """Log start, last stable offset and high watermark of each partition.

        :raises KafkaException: a leader can't say now.
        """
        self._admin.list_topics(topic, PATIENCE_S)  # librdkafka never learns by itself that there are more partitions
        asked = (
            (OffsetSpec.earliest(), UNCOMMITTED),
            (OffsetSpec.latest(), COMMITTED),
            (OffsetSpec.latest(), UNCOMMITTED),
        )
        listed = [
            self._admin.list_offsets(
                {TopicPartition(topic, number): spec for number in range(partitions)},
                isolation_level=_ADMIN_LEVELS[level],
            )
            for spec, level in asked
        ]
        found = [{key.partition: future.result(PATIENCE_S).offset for key, future in each.items()} for each in listed]
        return [tuple(each[number] for each in found) for number in range(partitions)]  # type: ignore[misc]

    def logs(self, topic: str, partitions: int) -> dict[int, PartitionLog]:
        """Everything in a topic.

        :raises KafkaException: a leader can't say now.
        :raises TimeoutError: the ends of the logs didn't come.
        """
        ends = self.ends(topic, partitions)
        starts = [start for start, _, _ in ends]
        for level, reader in self._readers.items():  # both fetch at the same time
            self._start(level, reader, topic, starts)
        committed, every = (_read(reader, partitions) for reader in self._readers.values())
        return {
            number: PartitionLog(*ends[number], tuple(committed[number]), tuple(every[number]))
            for number in range(partitions)
        }

    def _start(self, level: str, reader: Any, topic: str, starts: Sequence[int]) -> None:
        """Begin to fetch. A consumer takes a second to learn of a topic by itself, so it is told to ask."""
        deadline = time.monotonic() + PATIENCE_S
        while len(reader.list_topics(topic, PATIENCE_S).topics[topic].partitions) < len(starts):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{level}: {topic} hasn't got {len(starts)} partitions")
        reader.assign([TopicPartition(topic, number, start) for number, start in enumerate(starts)])


def _read(reader: Any, partitions: int) -> list[list[Record]]:
    """All records of the assigned partitions, up to the end of each."""
    found: list[list[Record]] = [[] for _ in range(partitions)]
    waiting = set(range(partitions))
    deadline = time.monotonic() + PATIENCE_S
    while waiting:
        message = reader.poll(0.5)
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {waiting} have no end")
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append(Record(message.offset(), message.timestamp()[1]))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            waiting.discard(message.partition())
    reader.unassign()
    return found


def describe(logs: Logs, commits: Offsets) -> Iterable[str]:
    """A line for each partition."""
    return [f"  p{number} commit {commits.get(number)}: {log}" for number, log in sorted(logs.items())]
