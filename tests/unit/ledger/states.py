"""States of a ledger, made as commits make them, for tests of decisions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from airflow_kafka_offsets.ledger import decisions, load_decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Attempted, Entries, Output, Published, Refused
from airflow_kafka_offsets.ledger.state import Commit, State, fold
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from tests.unit.ledger.memory import CREATED
from tests.unit.offsets.builders import HOUR_MS, T0, boundary, snapshot

AT = [T0 + hour * HOUR_MS for hour in range(5)]
NOW = T0 + 24 * HOUR_MS
NAME = window_id(AT[0], AT[1])


def after(state: State, *entries: Entries) -> State:
    """The state once these are committed, each by a commit of its own."""
    for each in entries:
        state = fold(state, [Commit(state.number + 1, each)])
    return state


BEGUN = after(State(), (CREATED,))


def asked(contents: Contents, *snapshots: OffsetSnapshot, known: int = 99, now_ms: int = NOW) -> ResolvedOffsets:
    return ResolvedOffsets(known, now_ms, {each.timestamp_ms: contents.add_snapshot(each) for each in snapshots})


def pinned(contents: Contents, *offsets: int, state: State = BEGUN) -> State:
    """A state with a window for each hour between these offsets."""
    taken = [snapshot({0: offset}, at_ms=AT[hour]) for hour, offset in enumerate(offsets)]
    windows = list(pairwise(AT[: len(offsets)]))
    return after(state, decisions.pin(state, windows, asked(contents, *taken), contents))


def attempted(state: State, by: str = "a") -> State:
    wish = Attempted(NAME, {"run": by})
    return after(state, load_decisions.begin(state, wish, state.windows[NAME].manifest))


def refused(state: State, *, run_id: str = "a", try_number: int = 1) -> State:
    wish = Refused(NAME, {"run_id": run_id, "try_number": try_number}, "DataLossError", "3 offsets are gone", NOW)
    entries = load_decisions.refuse(state, wish, state.windows[NAME].manifest)
    return after(state, entries) if entries else state


def publish(state: State, attempt: int, *, apart: bool = False, result: str = "r") -> Entries:
    outputs = (Output("", "delta", "s3://lake/t", 10),)
    wish = Published(NAME, attempt, "0" * 8, result, outputs, apart, NOW)
    return load_decisions.publish(state, wish, state.windows[NAME].manifest)


def both(hour: int, t: int, u: int, topic_id: str = "id-1") -> OffsetSnapshot:
    """A snapshot of two topics.

    :param topic_id: of the first one.
    """
    one = snapshot({0: t}, at_ms=AT[hour], topic_id=topic_id)
    facts = TopicFacts("u", "id-u", 1, "delete", -1, -1, "CreateTime")
    other = TopicPartition("u", 0)
    boundaries = {**one.boundaries, other: boundary(0, u, topic="u")}
    return replace(one, topics={**one.topics, "u": facts}, boundaries=boundaries)
