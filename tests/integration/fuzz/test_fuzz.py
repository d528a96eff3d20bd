"""Fuzz: what conditions say about random histories, against what is really in the log.

A wait that ends too early loses records, and one that never ends stops a pipeline: on a real cluster, for every history
and at every look, condition and oracle have to agree. ``FUZZ_HISTORIES=5000`` draws more histories; a failure names
its seed, and ``FUZZ_SEED=17,170`` replays these alone. ``FUZZ_RESTARTS=1`` restarts brokers meanwhile.
"""

from __future__ import annotations

import itertools
import os
import queue
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaException

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, check_all
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.positions import Positions
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from dev.cluster import KafkaCluster
from dev.kafka import Broker
from tests.integration.client.cases.workload import connected_client, new_name
from tests.integration.fuzz import history as histories
from tests.integration.fuzz.execution import Bench, Execution, make_topics, now_ms
from tests.integration.fuzz.history import (
    ABORT,
    COMMIT,
    INSTANT_MS,
    OPEN,
    PLAIN,
    Commit,
    Delete,
    History,
    Look,
    Send,
)
from tests.integration.fuzz.oracle import (
    COMMITTED,
    LEVELS,
    Logs,
    Oracle,
    PartitionLog,
    Verdict,
    describe,
    group_is_caught_up,
    has_new_data,
    target_is_reached,
    window_is_complete,
)

HISTORIES = int(os.environ.get("FUZZ_HISTORIES", "60"))
SEEDS = [int(each) for each in os.environ.get("FUZZ_SEED", "").split(",") if each]
WORKERS = 3
BATCH = 8
"""Topics are made for so many histories at once."""
PATIENCE_S = 15.0
"""How long a retriable error may be all that a condition says."""
RESTARTS = os.environ.get("FUZZ_RESTARTS") == "1"
"""Restart brokers meanwhile. Only on request: librdkafka 2.16's admin client now and then takes the whole process along
when its broker goes (an assertion in ``rd_kafka_enq_once_del_source_return``)."""
HISTORIES_PER_RESTART = 120
MOST_FAILURES = 5
KEPT = 3
"""Histories of each worker whose LogAppendTime topic is looked at again when its instants are a minute old."""
APPEND_GRACE_MS = 60_000
NO_CODEC = "UNSUPPORTED_COMPRESSION_TYPE"


def positions_of(offsets: Mapping[str, Sequence[int]], source: str = "capture") -> Positions:
    """Positions from the offset of each partition, by topic."""
    return Positions.of(
        source,
        {TopicPartition(topic, number): each for topic, all_ in offsets.items() for number, each in enumerate(all_)},
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A condition, and what it may say by the oracle."""

    condition: Condition
    allowed: frozenset[Verdict]


@dataclass(slots=True)
class Tally:
    """What has been seen, by all workers together.

    :ivar failures: number of steps and report of each history that went wrong.
    :ivar spoiled: why histories couldn't be done, such as a producer that a dead broker took along.
    """

    seen: Counter[str] = field(default_factory=Counter)
    histories: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    spoiled: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.histories} histories, {len(self.failures)} failed, {len(self.spoiled)} spoiled"]
        return "\n".join([*lines, *(f"  {name}: {count}" for name, count in sorted(self.seen.items())), *self.spoiled])


def claims(execution: Execution, logs: Logs, levels: Iterable[str], rng: random.Random) -> list[Claim]:
    """What to ask of a history, and the right answers."""
    return [claim for level in levels for claim in _claims(execution, logs, level, rng)]


def _claims(execution: Execution, logs: Logs, level: str, rng: random.Random) -> Iterator[Claim]:
    topic, group, commits, isolation = execution.topic, execution.group, execution.commits, IsolationLevel(level)
    no_commit = rng.choice(("from_log_start", "from_log_start", "wait", "ignore"))
    ahead = rng.choice(("fail", "wait"))
    verdict = group_is_caught_up(logs, commits, level, no_commit=no_commit, ahead_of_log=ahead)
    topics = rng.choice(((topic,), None))
    yield Claim(
        GroupsCaughtUp((group,), topics, no_commit=no_commit, ahead_of_log=ahead, isolation_level=isolation),
        frozenset({verdict if commits else Verdict.ERROR}),  # a group comes into being with its first commit
    )
    captured = execution.captured[level]
    target = positions_of({topic: list(captured.values())})
    reached = target_is_reached(logs, commits, captured, level) if commits else Verdict.ERROR
    yield Claim(OffsetsReached(group, target, isolation_level=isolation), frozenset({reached}))
    yield Claim(NewData((topic,), target, isolation_level=isolation), frozenset({has_new_data(logs, captured, level)}))
    yield from _window_claims(execution, logs, level, rng)


def _window_claims(execution: Execution, logs: Logs, level: str, rng: random.Random) -> Iterator[Claim]:
    grace_ms, instants = None, [INSTANT_MS]
    if execution.history.append_time:
        started_ms = execution.started_ms
        grace_ms, instants = APPEND_GRACE_MS, [started_ms - 90_000, started_ms - 20_000, execution.captured_ms]
    instant_ms = rng.choice(instants)
    allowed = window_is_complete(logs, instant_ms, level, now_ms=now_ms(), append_grace_ms=grace_ms)
    yield Claim(WindowComplete((execution.topic,), instant_ms, isolation_level=IsolationLevel(level)), allowed)


def ask(client: OffsetsClient, asked: Sequence[Claim], *, together: bool) -> list[Outcome]:
    """What conditions say; asked again while an error may pass."""
    deadline = time.monotonic() + PATIENCE_S
    outcomes: dict[Condition, Outcome] = {}
    left = [each.condition for each in asked]
    while left:
        for some in [left] if together else [[each] for each in left]:
            outcomes |= check_all(client, some)
        left = [each for each in left if isinstance(error := outcomes[each], KafkaOffsetsError) and error.retriable]
        if left and time.monotonic() > deadline:
            break
        time.sleep(0.1 if left else 0)
    return [outcomes[each.condition] for each in asked]


def verdict_of(outcome: Outcome) -> Verdict:
    if isinstance(outcome, Exception):
        if not isinstance(outcome, KafkaOffsetsError):
            raise outcome
        return Verdict.ERROR
    return Verdict.DONE if outcome.done else Verdict.WAITING


class Disagreement(AssertionError):
    """Condition and oracle, or oracle and model, don't say the same."""


class Worker:
    """Does histories one after the other, with clients of its own."""

    def __init__(self, cluster: KafkaCluster, tally: Tally, number: int) -> None:
        self.servers = cluster.bootstrap_servers
        self.tally = tally
        self.bench = Bench(self.servers, new_name(f"fuzz-{number}"))
        self.oracle = Oracle(self.servers)
        self.client = connected_client(self.servers)
        self.kept: list[Execution] = []

    def close(self) -> None:
        self.client.close()
        self.oracle.close()
        self.bench.close()

    def run(self, seeds: queue.SimpleQueue[list[int]]) -> None:
        """Do histories until there are no more, or too many went wrong."""
        with closing(self):
            while batch := seeds.get():
                if len(self.tally.failures) < MOST_FAILURES:
                    self._run_batch(batch)
            self._look_late()

    def _run_batch(self, seeds: Iterable[int]) -> None:
        drawn = {f"fuzz-{seed}-{os.urandom(3).hex()}": histories.draw(seed) for seed in seeds}
        make_topics(self.bench, drawn)
        for topic, history in drawn.items():
            self._run(Execution(self.bench, history, topic))
        kept = {each.topic for each in self.kept}
        self.bench.admin.delete_topics([each for each in drawn if each not in kept])

    def _run(self, execution: Execution) -> None:
        """One history, and its producers free again: unless its open transactions are to be looked at again later."""
        with self._judging(execution):
            for step in execution.history.steps:
                if isinstance(step, Look):
                    self._look(execution, step.levels)
                else:
                    execution.do(step)
                self.tally.seen[f"step {type(step).__name__}"] += 1
            if execution.history.append_time and len(self.kept) < KEPT:
                self.kept.append(execution)
            else:
                execution.finish()
        self.tally.histories += 1

    def _look_late(self) -> None:
        """Look again at what was kept, when time alone has made a difference."""
        for execution in self.kept:
            if SEEDS:  # only a replay waits for it: in a long run it has come, and a look too early is right as well
                time.sleep(max(0, (execution.captured_ms + APPEND_GRACE_MS - now_ms()) / 1000 + 5))
            with self._judging(execution):
                self._look(execution, LEVELS)
                execution.finish()
                self._look(execution, LEVELS)
                self.tally.seen["late look"] += 1

    @contextmanager
    def _judging(self, execution: Execution) -> Iterator[None]:
        """Note what goes wrong, and go on with the next history."""
        try:
            yield
        except (KafkaException, TimeoutError) as spoilt:
            self.tally.spoiled.append(f"{execution.history}: {spoilt!r}")
        except Exception as wrong:
            report = [str(execution.history), *(f"  {each}" for each in execution.done)]
            report.append(str(wrong) if isinstance(wrong, Disagreement) else traceback.format_exc())
            self.tally.failures.append((len(execution.done), "\n".join(report)))

    def _look(self, execution: Execution, levels: Sequence[str]) -> None:
        """Compare what conditions say with what is so.

        :raises Disagreement: they don't agree.
        """
        rng = random.Random(f"{execution.history.seed} {len(execution.done)}")
        logs = self._read(execution)
        asked = claims(execution, logs, levels, rng)
        fresh, together = rng.random() < 0.05, rng.random() < 0.7
        if fresh:
            with connected_client(self.servers) as client:
                outcomes = ask(client, asked, together=together)
        else:
            outcomes = ask(self.client, asked, together=together)
        for claim, outcome in zip(asked, outcomes, strict=True):
            verdict = verdict_of(outcome)
            self.tally.seen[f"{claim.condition.kind} {claim.condition.isolation_level}: {verdict}"] += 1
            if isinstance(claim.condition, WindowComplete) and NO_CODEC in str(outcome):
                self.tally.seen["window_complete without the codec"] += (
                    1  # the timestamps can't be read, and it says so
                )
            elif verdict not in claim.allowed:
                said = f"{claim.condition}\nsays {verdict}, and right is {' or '.join(claim.allowed)}: {outcome!r}"
                raise Disagreement("\n".join([said, *describe(logs, execution.commits)]))
        self._count(execution, logs)

    def _read(self, execution: Execution) -> Logs:
        """What the oracle finds, once it is all that the history has done: markers come a moment later.

        :raises Disagreement: it stays something else.
        """
        deadline = time.monotonic() + 2 * PATIENCE_S
        while True:
            try:
                logs = self.oracle.logs(execution.topic, len(execution.model))
                commits = self.oracle.commits(execution.group, execution.topic)
            except (KafkaException, TimeoutError):  # while a leader moves
                if time.monotonic() > deadline:
                    raise
                continue
            wrong = list(_differences(execution, logs, commits))
            if not wrong:
                return logs
            if time.monotonic() > deadline:
                raise Disagreement("\n".join(["Oracle and model differ:", *wrong, *describe(logs, commits)]))
            time.sleep(0.005)

    def _count(self, execution: Execution, logs: Logs) -> None:
        """What was there to be seen."""
        seen = self.tally.seen
        seen["look"] += 1
        for log in logs.values():
            seen[f"tail {log.tail}"] += 1
            seen["open transaction"] += log.last_stable_offset < log.high_watermark
            seen["deleted records"] += log.log_start_offset > 0
            seen["everything deleted"] += 0 < log.log_start_offset == log.high_watermark
        for number, commit in execution.commits.items():
            seen["commit below log start"] += commit < logs[number].log_start_offset
            seen["commit past high watermark"] += commit > logs[number].high_watermark
            seen["commit past last stable offset"] += commit > logs[number].last_stable_offset
        seen["partition without commit"] += len(logs) - len(execution.commits)


def _differences(execution: Execution, logs: Logs, commits: Mapping[int, int]) -> Iterator[str]:
    """Where the oracle finds something else than the model of what was done."""
    if commits != execution.commits:
        yield f"  commits {commits}, and should be {execution.commits}"
    for number, (log, model) in enumerate(zip(logs.values(), execution.model, strict=True)):
        ends = (log.log_start_offset, log.last_stable_offset, log.high_watermark)
        expected = (model.log_start_offset, model.last_stable_offset, model.high_watermark)
        if ends != expected:
            yield f"  p{number} start, LSO and HW {ends}, and should be {expected}"
        for level in LEVELS:
            offsets = [each.offset for each in log.visible(level)]
            if offsets != model.visible(level):
                yield f"  p{number} {level} {offsets}, and should be {model.visible(level)}"


def run(cluster: KafkaCluster, seeds: Sequence[int], workers: int, *, restarts: bool) -> Tally:
    """Do the histories of these seeds."""
    tally, batches = Tally(), queue.SimpleQueue[list[int]]()
    for start in range(0, len(seeds), BATCH):
        batches.put(list(seeds[start : start + BATCH]))
    for _ in range(workers):
        batches.put([])
    with ThreadPoolExecutor(workers) as threads:
        jobs = [threads.submit(Worker(cluster, tally, number).run, batches) for number in range(workers)]
        for count in itertools.count(1):
            while tally.histories < count * HISTORIES_PER_RESTART and not all(each.done() for each in jobs):
                time.sleep(0.1)
            if all(each.done() for each in jobs) or not restarts:
                break
            restart(cluster.brokers[count % len(cluster.brokers)], kill=count % 2 == 0)
            tally.seen["restart"] += 1
        for each in jobs:
            each.result()
    return tally


def restart(broker: Broker, *, kill: bool) -> None:
    """End a broker, in an orderly way or at once, and start it; from the main thread, to whose life it is bound."""
    broker.kill() if kill else broker.stop()
    broker.launch()
    broker.wait_until_ready(cluster_size=3)


class TestFuzz:
    @pytest.mark.timeout(1800)
    def test_no_false_pass_and_no_missed_pass(self, cluster: KafkaCluster) -> None:
        seeds = SEEDS or range(1, HISTORIES + 1)
        tally = run(cluster, seeds, 1 if SEEDS else WORKERS, restarts=RESTARTS)
        print(tally)
        if tally.failures:
            pytest.fail("\n\n".join(report for _, report in sorted(tally.failures)), pytrace=False)
        assert len(tally.spoiled) <= len(seeds) / 25, tally.spoiled
        if len(seeds) >= 500:
            assert rare(tally) == [], f"too seldom to mean anything:\n{tally}"


def rare(tally: Tally) -> list[str]:
    """What a run has to have seen, and hasn't."""
    kinds = (GroupsCaughtUp, OffsetsReached, NewData, WindowComplete)
    verdicts = [
        f"{kind.kind} {level}: {verdict}"
        for kind, level, verdict in itertools.product(kinds, LEVELS, (Verdict.DONE, Verdict.WAITING))
    ]
    wanted = [*verdicts, "tail marker", "tail hidden", "open transaction", "deleted records", "commit below log start"]
    return [each for each in wanted if tally.seen[each] < 20]


class TestOracle:
    """What the oracle reads, where everybody knows what was written."""

    def test_sees_markers_aborted_undecided_and_deleted_records(self, cluster: KafkaCluster) -> None:
        stamps = (INSTANT_MS, INSTANT_MS + 1)
        topic, history = new_name("oracle"), History(0, 2, 3, append_time=False, steps=())
        with (
            closing(Bench(cluster.bootstrap_servers, topic)) as bench,
            closing(Oracle(cluster.bootstrap_servers)) as oracle,
        ):
            make_topics(bench, {topic: history})
            execution = Execution(bench, history, topic)
            for fate in (PLAIN, COMMIT, ABORT, OPEN):
                execution.do(Send({0: stamps}, fate))
            execution.do(Delete(0, 0.1))
            execution.do(Commit((0,), "end", COMMITTED, 0))
            log, empty = oracle.logs(topic, 2).values()
            assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (1, 8, 10)
            assert [each.offset for each in log.committed] == [1, 2, 3]
            assert [each.offset for each in log.every] == [1, 2, 3, 5, 6, 8, 9]
            assert [each.timestamp_ms for each in log.committed] == [INSTANT_MS + 1, *stamps]
            assert empty == PartitionLog(0, 0, 0, (), ())
            assert oracle.commits(execution.group, topic) == {0: 8}
            assert oracle.commits("nobody", topic) == {}
            execution.finish()
