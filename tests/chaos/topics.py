"""The topics of a plan on a real cluster: what is done to them, and what an independent reader sees in them.

Both use the code of the fuzz tests, which uses only confluent_kafka. Records are read before DeleteRecords removes some
of them, and at the end, so that every record that ever existed is seen.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException, Producer

from tests.chaos.diary import Diary, Span
from tests.chaos.judge import Seen
from tests.chaos.plan import CODEC, TRANSACTIONAL, Event
from tests.integration.fuzz.bench import Bench
from tests.integration.fuzz.execution import Execution
from tests.integration.fuzz.history import ABORT, COMMIT, PLAIN, Delete, History, ModelLog
from tests.integration.fuzz.oracle import COMMITTED, LEVELS, Oracle
from tests.integration.fuzz.topics import make_topics
from tests.patience import PATIENCE_S

Key = tuple[str, int]
T = TypeVar("T")


class Topics:
    """Topics that exist from the start.

    :param topics: partitions and replicas, by name.
    :param diary: records what happens to which offsets.
    """

    def __init__(self, bootstrap_servers: str, topics: Mapping[str, History], diary: Diary) -> None:
        self.seen: Counter[str] = Counter()
        self._diary = diary
        self._bench = _Bench(bootstrap_servers, "chaos")
        self._oracle = Oracle(bootstrap_servers)
        make_topics(self._bench, topics)
        self._executions = {topic: Execution(self._bench, history, topic) for topic, history in topics.items()}
        self._visible: dict[str, dict[Key, set[int]]] = {level: defaultdict(set) for level in LEVELS}
        self._timestamps: dict[Key, dict[int, int]] = defaultdict(dict)
        self._log_starts: dict[Key, list[int]] = defaultdict(lambda: [0])

    def close(self) -> None:
        self._oracle.close()
        self._bench.close()

    def do(self, event: Event) -> None:
        """Do something to a topic. Records that would be deleted are read first.

        :raises KafkaException: the cluster refused.
        """
        execution = self._executions[event.topic]
        if isinstance(event.step, Delete):
            self._look(event.topic)
        before = [_ends(each) for each in execution.model]
        execution.do(event.step)
        self.seen[type(event.step).__name__] += 1
        for partition, log in enumerate(execution.model):
            self._note(event, partition, before[partition] if partition < len(before) else (0, 0), _ends(log))

    def _note(self, event: Event, partition: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        (old_start, old_end), (start, end) = before, after
        if end > old_end:
            words = f"{type(event.step).__name__} {getattr(event.step, 'fate', '')} brings {old_end}..{end}"
            self._diary.note_span(Span(event.topic, partition, old_end, end), words)
        if start > old_start:
            self._log_starts[event.topic, partition].append(start)
            self._diary.note_span(Span(event.topic, partition, old_start, start), f"loses {old_start}..{start}")
            self.seen["deleted offsets"] += start - old_start

    def finish(self) -> None:
        """End open transactions, and read everything.

        :raises AssertionError: the reader didn't see what was done.
        """
        for topic, execution in self._executions.items():
            execution.finish()
            self._look(topic)
            for partition, model in enumerate(execution.model):
                every = {each for each, fate in enumerate(model.fates) if fate in (PLAIN, COMMIT, ABORT)}
                assert every == self._timestamps[topic, partition].keys(), f"{topic}-{partition} isn't all read"
                assert every >= self._visible[COMMITTED][topic, partition]

    def judged(self, level: str) -> dict[Key, Seen]:
        """What was seen in every partition, for a pipeline of an isolation level."""
        return {
            (topic, partition): Seen(
                frozenset(self._visible[level][topic, partition]),
                self._timestamps[topic, partition],
                self._log_starts[topic, partition],
            )
            for topic, execution in self._executions.items()
            for partition in range(len(execution.model))
        }

    def _look(self, topic: str) -> None:
        execution = self._executions[topic]
        ends = [each.high_watermark for each in execution.model]
        for partition, log in _insist(lambda: self._oracle.logs(topic, len(ends))).items():
            again = log.high_watermark - ends[partition]
            assert again >= 0, f"{topic}-{partition} ends at {log.high_watermark}"
            execution.model[partition].fates += ["marker"] * again
            for level in LEVELS:
                self._visible[level][topic, partition] |= {each.offset for each in log.visible(level)}
            self._timestamps[topic, partition] |= {each.offset: each.timestamp_ms for each in log.every}


TRANSACTION_MS = 6 * 60 * 60 * 1000
"""How long a transaction may be open: longer than any run, or the broker would end it, with an unplanned marker."""


class _Bench(Bench):
    """The fuzz tests' clients, with one codec for transactions."""

    def _new_transactional(self) -> Any:
        config = {
            "transactional.id": f"{self._name}-{next(self._ids)}",
            "transaction.timeout.ms": TRANSACTION_MS,
            "compression.codec": CODEC[TRANSACTIONAL],
        }
        producer = Producer(self._producing | config)
        producer.init_transactions(PATIENCE_S)
        return producer


def _ends(log: ModelLog) -> tuple[int, int]:
    return log.log_start_offset, log.high_watermark


def _insist(ask: Callable[[], T]) -> T:
    """Retry until there is an answer, because leaders move."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except (KafkaException, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
