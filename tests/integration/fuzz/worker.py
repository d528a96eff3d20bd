"""Workers: do histories side by side, and compare what conditions say at every look with what is so."""

from __future__ import annotations

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

from confluent_kafka import KafkaException

from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import connected_client, new_name
from tests.integration.fuzz import history as histories
from tests.integration.fuzz.bench import Bench
from tests.integration.fuzz.claims import APPEND_GRACE_MS, PATIENCE_S, ask, claims, verdict_of
from tests.integration.fuzz.execution import Execution, now_ms
from tests.integration.fuzz.history import Look
from tests.integration.fuzz.oracle import LEVELS, Logs, Oracle, describe
from tests.integration.fuzz.topics import make_topics

BATCH = 8
"""Topics are made for so many histories at once."""
MOST_FAILURES = 5
KEPT = 3
"""Histories of each worker whose LogAppendTime topic is looked at again when its instants are a minute old."""
NO_CODEC = "UNSUPPORTED_COMPRESSION_TYPE"


class UnlikeTheModelError(Exception):
    """The log isn't as the steps should have made it, as where a busy broker writes a marker twice. Nothing is said of
    what is tested; a model that is wrong spoils more histories than may be."""


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


class Disagreement(AssertionError):
    """Condition and oracle don't say the same."""


class Worker:
    """Does histories one after the other, with clients of its own.

    :param replay: a few histories are done again, and time is no object.
    """

    def __init__(self, cluster: KafkaCluster, tally: Tally, number: int, *, replay: bool) -> None:
        self.servers = cluster.bootstrap_servers
        self.tally = tally
        self.replay = replay
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
            if self.replay:  # nothing else waits for it: in a long run it has come, and a look too early is right too
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
        except (KafkaException, TimeoutError, UnlikeTheModelError) as spoilt:
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
                raise UnlikeTheModelError("\n".join(["Oracle and model differ:", *wrong, *describe(logs, commits)]))
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


def run(cluster: KafkaCluster, seeds: Sequence[int], workers: int, *, replay: bool) -> Tally:
    """Do the histories of these seeds."""
    tally, batches = Tally(), queue.SimpleQueue[list[int]]()
    for start in range(0, len(seeds), BATCH):
        batches.put(list(seeds[start : start + BATCH]))
    for _ in range(workers):
        batches.put([])
    with ThreadPoolExecutor(workers) as threads:
        jobs = [threads.submit(Worker(cluster, tally, number, replay=replay).run, batches) for number in range(workers)]
    for each in jobs:
        each.result()
    return tally
