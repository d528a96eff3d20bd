"""Executions: histories done on a real cluster, step by step; the model says what the oracle has to find."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPartition
from kafka.errors import for_code
from kafka.protocol.admin.topics import ElectionType
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from dev import raw_client
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

PATIENCE_S = 40.0
TRANSACTION_PRODUCERS = 5


class Bench:
    """The clients with which one thread does histories: made once, since transactional producers take a second."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        common = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        producing: dict[str, Any] = common | {"linger.ms": 2, "enable.idempotence": True}
        self.admin = AdminClient(common)
        self.leaders = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        self.plain = [Producer(producing | {"compression.codec": each}) for each in CODECS]
        self._ids = itertools.count(1)
        self._producing = producing
        self._name = name
        with ThreadPoolExecutor(TRANSACTION_PRODUCERS) as side_by_side:
            self.free = list(side_by_side.map(lambda _: self._new_transactional(), range(TRANSACTION_PRODUCERS)))
        self.markers = MarkerWriter(bootstrap_servers, f"{name}-markers")

    def close(self) -> None:
        for each in self.plain:
            each.flush(PATIENCE_S)
        self.leaders.close()

    def _new_transactional(self) -> Any:
        number = next(self._ids)
        config = {
            "transactional.id": f"{self._name}-{number}",
            "transaction.timeout.ms": 600_000,
            "compression.codec": CODECS[number % len(CODECS)],
        }
        producer = Producer(self._producing | config)
        producer.init_transactions(PATIENCE_S)
        return producer

    def take(self) -> Any:
        """A producer that is in no transaction, the one that has rested longest."""
        return self.free.pop(0) if self.free else self._new_transactional()

    def give_back(self, producer: Any) -> None:
        self.free.append(producer)


class MarkerWriter:
    """Transactions without a record, by the raw protocol: no producer library makes them on purpose, and every one
    leaves them behind when it aborts before a first batch is sent.
    """

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._servers = bootstrap_servers.split(",")
        self._id = transactional_id
        self._coordinator = ""
        self._producer = (-1, -1)

    def write(self, topic: str, partitions: Sequence[int], fate: str) -> None:
        """Announce partitions and end; wait until the coordinator lets another transaction follow."""
        fields = {"producer_id": self._identity()[0], "producer_epoch": self._identity()[1]}
        added = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
        old_fields = {f"v3_and_below_{name}": value for name, value in fields.items()}
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id, v3_and_below_topics=[added], **old_fields
        )

        def added_error(answer: Any) -> int:
            (found,) = answer.results_by_topic_v3_and_below
            return next(
                (each.partition_error_code for each in found.results_by_partition if each.partition_error_code), 0
            )

        self._ask(add, AddPartitionsToTxnResponse, 3, added_error)
        end = EndTxnRequest(transactional_id=self._id, committed=fate == COMMIT, **fields)
        self._ask(end, EndTxnResponse, 3)

    def _identity(self) -> tuple[int, int]:
        if self._producer == (-1, -1):
            request = InitProducerIdRequest(
                transactional_id=self._id, transaction_timeout_ms=600_000, producer_id=-1, producer_epoch=-1
            )
            answer = self._ask(request, InitProducerIdResponse, 4)
            self._producer = (answer.producer_id, answer.producer_epoch)
        return self._producer

    def _ask(
        self, request: Any, response: Any, version: int, error: Callable[[Any], int] = lambda answer: answer.error_code
    ) -> Any:
        """The coordinator's answer; asked again while it moves, or still writes the markers of the last transaction."""
        deadline = time.monotonic() + PATIENCE_S
        code = -1
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, EOFError):
                self._coordinator = self._coordinator or self._find()
                with raw_client.connected(self._coordinator) as connection:
                    raw_client.send(connection, request, version)
                    answer = raw_client.receive(connection, response, version)
                code = error(answer)
                if code == 0:
                    return answer
                if not for_code(code).retriable:
                    raise for_code(code)
            if code != 51:  # CONCURRENT_TRANSACTIONS comes from the right coordinator
                self._coordinator = ""
            time.sleep(0.02)
        raise TimeoutError(f"the coordinator of {self._id} doesn't answer: {code}")

    def _find(self) -> str:
        for address in self._servers:
            with contextlib.suppress(OSError, EOFError), raw_client.connected(address) as connection:
                raw_client.send(connection, FindCoordinatorRequest(key_type=1, coordinator_keys=[self._id]), 4)
                (found,) = raw_client.receive(connection, FindCoordinatorResponse, 4).coordinators
                if found.error_code == 0:
                    return f"{found.host}:{found.port}"
        return ""


def make_topics(bench: Bench, topics: Mapping[str, History]) -> None:
    """New topics for histories, known to every broker."""
    new = [NewTopic(name, each.partitions, each.replicas, config=_config(each)) for name, each in topics.items()]
    for future in bench.admin.create_topics(new).values():
        future.result(PATIENCE_S)
    wait_until_known(bench.bootstrap_servers, {name: each.partitions for name, each in topics.items()})


def _config(history: History) -> dict[str, str]:
    kind = "LogAppendTime" if history.append_time else "CreateTime"
    return {"retention.ms": "-1", "message.timestamp.type": kind, "min.insync.replicas": "1"}


def wait_until_known(bootstrap_servers: str, topics: Mapping[str, int]) -> None:
    """Wait until every broker that answers knows so many partitions, each with a leader.

    :raises TimeoutError: they don't.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not all(_knows(address, topics) for address in bootstrap_servers.split(",")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not every broker knows {', '.join(topics)}")
        time.sleep(0.01)


def _knows(address: str, topics: Mapping[str, int]) -> bool:
    with contextlib.suppress(OSError, EOFError):
        for each in raw_client.metadata(address, list(topics)).topics:
            leaders = [partition.leader_id for partition in each.partitions]
            if len(leaders) != topics[each.name] or min(leaders, default=-1) < 0:
                return False
    return True


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
            case Send(stamps, fate, apart):
                self._produce(stamps, fate, apart)
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

    def _send(self, producer: Any, stamps: Mapping[int, Sequence[int]], fate: str, apart: bool) -> None:
        self._introduce(producer)
        got: dict[int, list[int]] = {each: [] for each in stamps}
        failed: list[Any] = []

        def note(error: Any, message: Any) -> None:
            failed.append(error) if error is not None else got[message.partition()].append(message.offset())

        for partition, each in stamps.items():
            for stamp in each:
                record = {"value": b"value", "partition": partition, "timestamp": stamp, "on_delivery": note}
                _insist(partial(producer.produce, self.topic, **record))
                if apart:
                    producer.flush(PATIENCE_S)
        producer.flush(PATIENCE_S)
        if failed:
            raise KafkaException(failed[0])
        for partition, offsets in got.items():
            log = self.model[partition]
            first = log.high_watermark
            assert offsets == list(range(first, first + len(stamps[partition]))), (partition, offsets, first)
            log.fates += [fate] * len(offsets)

    def _introduce(self, producer: Any) -> None:
        """Tell a producer of the topic and its new partitions, which it would notice a while later."""
        deadline = time.monotonic() + PATIENCE_S
        while self._known.get(id(producer), 0) < len(self.model) and time.monotonic() < deadline:
            found = producer.list_topics(self.topic, PATIENCE_S).topics[self.topic]
            self._known[id(producer)] = len(found.partitions)

    def _produce(self, stamps: Mapping[int, Sequence[int]], fate: str, apart: bool) -> None:
        if fate == PLAIN:
            self._send(self.bench.plain[self.history.seed % len(CODECS)], stamps, PLAIN, apart)
            return
        producer, name = self.bench.take(), f"{OPEN} {next(self._numbers)}"
        producer.begin_transaction()
        self._open.append((name, producer))
        self._send(producer, stamps, name, apart)
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
            if all(each.offset == self.model[partition].high_watermark for partition, each in found.items()):
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
    """Whether an error of librdkafka goes away: some don't say so that come while a leader isn't known yet."""
    passing = (KafkaError._NOENT, KafkaError._UNKNOWN_PARTITION, KafkaError.NOT_LEADER_FOR_PARTITION)
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
