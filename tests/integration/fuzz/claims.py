"""Claims: conditions to ask about a history, and what each may say by the oracle."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, check_all
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from tests.integration.fuzz.execution import Execution, now_ms
from tests.integration.fuzz.history import INSTANT_MS
from tests.integration.fuzz.oracle import (
    Logs,
    Verdict,
    group_is_caught_up,
    has_new_data,
    target_is_reached,
    window_is_complete,
)

PATIENCE_S = 15.0
"""How long a retriable error may be all that a condition says."""
APPEND_GRACE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Claim:
    """A condition, and what it may say by the oracle."""

    condition: Condition
    allowed: frozenset[Verdict]


def positions_of(offsets: Mapping[str, Sequence[int]], source: str = "capture") -> FixedOffsets:
    """Positions from the offset of each partition, by topic."""
    return FixedOffsets.of(
        source,
        (SeenOffset(topic, number, each) for topic, all_ in offsets.items() for number, each in enumerate(all_)),
    )


def claims(execution: Execution, logs: Logs, levels: Iterable[str], rng: random.Random) -> list[Claim]:
    """What to ask of a history, and the right answers."""
    return [claim for level in levels for claim in _claims(execution, logs, level, rng)]


def _claims(execution: Execution, logs: Logs, level: str, rng: random.Random) -> Iterator[Claim]:
    topic, group, commits, isolation = execution.topic, execution.group, execution.commits, IsolationLevel(level)
    no_commit = rng.choice(("from_log_start", "from_log_start", "wait", "ignore"))
    verdict = group_is_caught_up(logs, commits, level, no_commit=no_commit)
    topics = rng.choice(((topic,), None))
    yield Claim(
        GroupsCaughtUp((group,), topics, no_commit=no_commit, isolation_level=isolation),
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
