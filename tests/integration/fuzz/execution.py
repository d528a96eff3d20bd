"""Executions: histories done on a real cluster, step by step; the model says what the oracle has to find."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions, OffsetSpec
from kafka import TopicPartition as KafkaPartition
from kafka.protocol.admin.topics import ElectionType

from dev import raw_client
from tests.integration.fuzz.bench import PATIENCE_S, Bench
from tests.integration.fuzz.history import (
    ABORT,
    CODECS,
    COMMIT,
    OPEN,
    PLAIN,
    AddPartition,
    Capture,
    Commit,
    Delete,
    End,
    History,
    MarkersOnly,
    ModelLog,
    MoveLeader,
    Send,
    Step,
)
from tests.integration.fuzz.oracle import LEVELS
from tests.integration.fuzz.topics import wait_until_known


class Execution:
    """A history being done.

    :ivar model: what each partition must hold now.
    :ivar commits: what the group has committed, by partition.
    :ivar captured: the visible ends that were captured last, by isolation level and partition.
    :ivar captured_ms: when that was, by this machine's clock.
    :ivar done: a line for each step so far.
    """

    def __init__(self, bench: Bench, history: History, topic: str) -> None:
        self.bench = bench
        self.history = history
        self.topic = topic
        self.group = f"group-of-{topic}"
        self.model = [ModelLog() for _ in range(history.partitions)]
        self.commits: dict[int, int] = {}
        self.captured = {level: dict.fromkeys(range(history.partitions), 0) for level in LEVELS}
        self.captured_ms = self.started_ms = now_ms()
        self.done: list[str] = []
        self._open: list[tuple[str, Any]] = []
        self._known: dict[int, int] = {}
        self._numbers = itertools.count(1)

    def do(self, step: Step) -> None:
        """Do one step; looking is the caller's.

        :raises KafkaException: the cluster didn't let us.
        """
        match step:
            case Send(stamps, fate, own_batches):
                self._produce(stamps, fate, own_batches)
            case End(fate):
                self._end(fate)
            case MarkersOnly(partitions, fate):
                self._write_markers(partitions, fate)
            case Commit():
                self._commit(step)
            case Delete(partition, share):
                self._delete(partition, share)
            case AddPartition():
                self._add_partition()
            case MoveLeader(partition):
                self._move(partition)
            case Capture():
                self._capture()
        self.done.append(f"{step}" + (f" -> {self.commits}" if isinstance(step, Commit) else ""))

    def finish(self) -> None:
        """End what is open, so that its producers are free again."""
        while self._open:
            self._end(ABORT)

    def _send(self, producer: Any, stamps: Mapping[int, Sequence[int]], fate: str, own_batches: bool) -> None:
        self._introduce(producer)
        got: dict[int, list[int]] = {each: [] for each in stamps}
        failed: list[Any] = []

        def note(error: Any, message: Any) -> None:
            failed.append(error) if error is not None else got[message.partition()].append(message.offset())

        for partition, each in stamps.items():
            for stamp in each:
                record = {"value": b"value", "partition": partition, "timestamp": stamp, "on_delivery": note}
                _insist(partial(producer.produce, self.topic, **record))
                if own_batches:
                    producer.flush(PATIENCE_S)
        producer.flush(PATIENCE_S)
        if failed:
            raise KafkaException(failed[0])
        for partition, offsets in got.items():
            log = self.model[partition]
            # Where the connection between a coordinator and a leader breaks, a transaction's marker is written again.
            # Were it a record, whoever reads the log in the end would find one too many.
            log.fates += ["marker"] * max(0, offsets[0] - log.high_watermark)
            first = log.high_watermark
            assert offsets == list(range(first, first + len(stamps[partition]))), (partition, offsets, first)
            log.fates += [fate] * len(offsets)

    def _introduce(self, producer: Any) -> None:
        """Tell a producer of the topic and its new partitions, which it would notice a while later."""
        deadline = time.monotonic() + PATIENCE_S
        while self._known.get(id(producer), 0) < len(self.model) and time.monotonic() < deadline:
            found = producer.list_topics(self.topic, PATIENCE_S).topics[self.topic]
            self._known[id(producer)] = len(found.partitions)

    def _produce(self, stamps: Mapping[int, Sequence[int]], fate: str, own_batches: bool) -> None:
        if fate == PLAIN:
            self._send(self.bench.plain[self.history.seed % len(CODECS)], stamps, PLAIN, own_batches)
            return
        producer, name = self.bench.take(), f"{OPEN} {next(self._numbers)}"
        producer.begin_transaction()
        self._open.append((name, producer))
        self._send(producer, stamps, name, own_batches)
        if fate != OPEN:
            self._end(fate, newest=True)

    def _write_markers(self, partitions: Sequence[int], fate: str) -> None:
        self.bench.markers.write(self.topic, partitions, fate)
        for each in partitions:
            self.model[each].fates.append("marker")
        self._settle(partitions)

    def _capture(self) -> None:
        self.captured = {level: dict(enumerate(each.end(level) for each in self.model)) for level in LEVELS}
        self.captured_ms = now_ms()

    def _end(self, fate: str, *, newest: bool = False) -> None:
        if not self._open:
            return
        name, producer = self._open.pop(-1 if newest else 0)
        end = producer.commit_transaction if fate == COMMIT else producer.abort_transaction
        _insist(lambda: end(PATIENCE_S))
        decided = [number for number, each in enumerate(self.model) if name in each.fates]
        for each in decided:
            self.model[each].decide(name, fate)
        self.bench.give_back(producer)
        self._settle(decided)

    def _settle(self, partitions: Sequence[int]) -> None:
        """Wait for markers, which brokers write after a producer has heard that its transaction has ended.

        :raises TimeoutError: they don't come.
        """
        admin, ends = self.bench.admin, {TopicPartition(self.topic, each): OffsetSpec.latest() for each in partitions}
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                found = {key.partition: each.result(PATIENCE_S) for key, each in admin.list_offsets(ends).items()}
            except KafkaException:
                self._find_leaders()
                continue
            if all(each.offset >= self.model[partition].high_watermark for partition, each in found.items()):
                return
            time.sleep(0.002)
        raise TimeoutError(f"no markers on {self.topic} {partitions}")

    def _commit(self, step: Commit) -> None:
        offsets = {
            each: self.model[each].place(step.place, step.level, step.share, self.commits.get(each))
            for each in step.partitions
        }
        keys = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(self.group, keys)]

        def commit() -> None:
            (future,) = self.bench.admin.alter_consumer_group_offsets(asked).values()
            for each in future.result(PATIENCE_S).topic_partitions:
                if each.error is not None:
                    raise KafkaException(each.error)

        _insist(commit)
        self.commits |= offsets

    def _delete(self, partition: int, share: float) -> None:
        log = self.model[partition]
        start = log.log_start_offset + round(share * (log.high_watermark - log.log_start_offset))

        def delete() -> None:
            (future,) = self.bench.admin.delete_records([TopicPartition(self.topic, partition, start)]).values()
            future.result(PATIENCE_S)

        _insist(delete, between=self._find_leaders)
        log.log_start_offset = start

    def _add_partition(self) -> None:
        (future,) = self.bench.admin.create_partitions([NewPartitions(self.topic, len(self.model) + 1)]).values()
        future.result(PATIENCE_S)
        self.model.append(ModelLog())
        wait_until_known(self.bench.bootstrap_servers, {self.topic: len(self.model)})
        self._find_leaders()

    def _find_leaders(self) -> None:
        """Have the administrator ask for partitions and leaders anew: it goes by what it knew before, for ever."""
        with contextlib.suppress(KafkaException):
            self.bench.admin.list_topics(self.topic, PATIENCE_S)
        time.sleep(0.01)

    def _move(self, partition: int) -> None:
        """Put another replica first, and have it elected."""
        (found,) = raw_client.metadata(self.bench.bootstrap_servers.split(",")[0], [self.topic]).topics
        (before,) = (each for each in found.partitions if each.partition_index == partition)
        first = next(each for each in before.replica_nodes if each != before.leader_id)
        order = [first, *(each for each in before.replica_nodes if each != first)]
        key = KafkaPartition(self.topic, partition)
        self.bench.leaders.alter_partition_reassignments({key: order})
        self.bench.leaders.elect_leaders(ElectionType.PREFERRED, [self.topic], raise_errors=False)


def now_ms() -> int:
    """Unix milliseconds, as brokers on this machine stamp records."""
    return time.time_ns() // 1_000_000


def _passes(error: Any) -> bool:
    """Whether an error of librdkafka goes away: some don't say so that come while a leader isn't known yet, or while a
    busy machine doesn't answer in time."""
    unknown = (KafkaError._NOENT, KafkaError._UNKNOWN_PARTITION, KafkaError.NOT_LEADER_FOR_PARTITION)
    passing = (*unknown, KafkaError._TIMED_OUT)
    return bool(error.retriable()) or error.code() in passing


def _insist(work: Callable[[], object], *, between: Callable[[], object] = lambda: None) -> None:
    """Do something that may be refused while a leader or coordinator moves; something else between two attempts."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            work()
        except KafkaException as refused:
            if not _passes(refused.args[0]) or time.monotonic() > deadline:
                raise
            between()
            time.sleep(0.05)
        else:
            return
