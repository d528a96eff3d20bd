"""A pipeline as a whole: its overview in one row, which agrees with ``ledger list`` and ``ledger verify``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

from airflow_kafka_offsets.errors import LedgerError, number_of
from airflow_kafka_offsets.ledger.audits import audit_problems
from airflow_kafka_offsets.ledger.counted import WindowStatus, statuses
from airflow_kafka_offsets.ledger.holes import holes_of, unloaded_stretches
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.page.lateness import next_window
from airflow_kafka_offsets.page.reasons import failure_of
from airflow_kafka_offsets.runs.around import filled_by

Json = dict[str, Any]
_DRAWN = 48
"""How many windows the drawing of rows per window shows."""
_SHOWN = 5
"""How many of the failed windows are shown with their reasons."""
_LATEST = 10
"""How many of the last windows that have an attempt are looked at for their Dags."""


def lost_of(window: Window) -> Counter[TopicPartition]:
    """What Kafka no longer had of a window when it was loaded, by partition: of the published attempt, or else of the
    newest one."""
    lost = Counter[TopicPartition]()
    for each in window.lost:
        lost[TopicPartition.of(each)] += each.span
    return lost


def overview(ledger: Ledger) -> Json:
    """One pipeline::

        topics             those of the newest snapshot; before the first one, those that the ledger was created with
        windows            how many windows there are, published or not
        published          the published window that ends last; None if there is none
        next               what is to be loaded next, and when it is due: see :mod:`.lateness`
        states             how many windows are in each state
        failures           the last windows whose newest attempt failed, with the reason
        audits             the last windows of which an audited table lacks records or has too many, in words
        audited            how many pinned windows have only been audited: something else loads them
        losses             what windows have lost, in words: Kafka had deleted it before they were loaded
        lost_offsets       number of offsets that windows have lost
        holes              the holes that no window has, in words, each with the ways to load it
        restarts           where logs have begun anew, and what was left unloaded of the old ones, in words
        gone_offsets       number of offsets that aren't loaded, and that Kafka had deleted when the newest snapshot was
                           taken; None without snapshots, and if they can't be read
        unloaded_from_ms   from when on records aren't loaded, Unix milliseconds; None likewise
        retention_ms       the shortest retention of the topics; -1 if all are kept forever, as compacted topics are;
                           None if it isn't known for one of them
        rows               rows of the last published windows, in order of time
        dag_ids            the Dags that load the pipeline

    :raises LedgerError: when the ledger can't be read or is damaged.
    """
    state = ledger.state
    windows = list(state.windows.values())
    published = [(window, stands) for window in windows if (stands := window.publication) is not None]
    status = statuses(ledger, windows)
    failed = [window for window in windows if status[window.name] is WindowStatus.FAILED][-_SHOWN:]
    audited = [(window.name, words) for window in windows if (words := audit_problems(window.audits))]
    lost = {window.name: count for window in windows if (count := sum(lost_of(window).values()))}
    return {
        "pipeline": ledger.pipeline,
        "windows": len(windows),
        "published": published[-1][0].name if published else None,
        "next": next_window(state, status),
        "states": Counter(status.values()),
        "failures": [{"window": window.name, **(failure_of(ledger, window) or {})} for window in failed],
        "audits": [f"table {words} (audit of window {name})" for name, words in audited[-_SHOWN:]],
        "audited": sum(
            status[each.name] is WindowStatus.PINNED and each.publication is None and bool(each.audits)
            for each in windows
        ),
        "losses": [f"{number_of(count, 'offset')} of window {name}" for name, count in lost.items()],
        "lost_offsets": sum(lost.values()),
        "restarts": [str(restart) for restart in state.restarts],
        "rows": [stands.rows for _, stands in published[-_DRAWN:]],
        "dag_ids": sorted(dags_of_pipeline(state)),
        **_of_snapshots(ledger),
    }


def _of_snapshots(ledger: Ledger) -> Json:
    """What the pipeline's snapshots tell. One that can't be read hides no window."""
    state, unknown = ledger.state, dict.fromkeys(("gone_offsets", "unloaded_from_ms", "retention_ms"))
    created = () if state.created is None else state.created.topics
    if state.newest_snapshot is None:
        return {"topics": created, "holes": [], **unknown}
    try:
        newest, (since_ms, ranges) = ledger.offsets_at(state.newest_snapshot.at_ms), _unloaded(ledger)
        log_starts = {key: each.log_start_offset for key, each in newest.boundaries.items()}
        gone = (min(log_starts.get(TopicPartition.of(each), 0), each.end_offset) - each.start_offset for each in ranges)
        holes, dags = [hole for hole in holes_of(ledger) if hole.unpinned], dags_of_pipeline(state)
        return {
            "topics": sorted(newest.topics),
            "holes": [{"words": str(hole), "filled_by": filled_by(state, hole, dags)} for hole in holes],
            "gone_offsets": sum(max(0, offsets) for offsets in gone),
            "unloaded_from_ms": since_ms,
            "retention_ms": _shortest_retention(ledger.offsets_now(state.newest_snapshot.at_ms).topics),
        }
    except LedgerError as error:
        hole = {"words": f"The holes aren't known: {error}", "filled_by": []}
        return {"topics": created, "holes": [hole], **unknown}


def _unloaded(ledger: Ledger) -> tuple[int, list[LogRange]]:
    """From when on records aren't loaded, and all that aren't, to the log end, wherever that is: from the start of the
    first window on; without windows, from the newest snapshot on, as the retention watch counts it. What was in a log
    that has begun anew since doesn't count."""
    state, last = ledger.state, ledger.state.last_window or ledger.state.newest_snapshot
    assert last is not None, "there is a snapshot"
    end_ms = last.end_ms if isinstance(last, Window) else last.at_ms
    found = list(unloaded_stretches(state))
    ranges = in_parallel(lambda each: ledger.between(*each[:2]), found)
    since_ms = next((each.start_ms for each, own in zip(found, ranges, strict=True) if own), end_ms)
    end = ledger.offsets_now(end_ms)
    after = (LogRange(*key, each.offset, sys.maxsize) for key, each in end.boundaries.items())
    return since_ms, [*chain(*ranges), *after]


def _shortest_retention(topics: Mapping[str, TopicFacts]) -> int | None:
    """The shortest retention of some topics, milliseconds; -1 if all are kept forever, as compacted topics are; None if
    it isn't known for one of them."""
    kept = [_kept_ms(topic) for topic in topics.values()]
    if not kept or None in kept:
        return None
    return min((ms for ms in kept if ms is not None and ms >= 0), default=-1)


def _kept_ms(topic: TopicFacts) -> int | None:
    if topic.cleanup_policy is not None and "delete" not in topic.cleanup_policy:
        return -1
    return None if topic.cleanup_policy is None else topic.retention_ms


def dags_of_pipeline(state: State) -> frozenset[str]:
    """The Dags that load or audit a pipeline: those of the last windows; empty if they name none. Users who may not
    read them can't see the pipeline."""
    tried = (each for each in reversed(state.windows.values()) if each.attempts or each.refusal or each.audits)
    return frozenset().union(*map(dags_of_window, islice(tried, _LATEST)))


def dags_of_window(window: Window) -> frozenset[str]:
    """The Dags that made a window's attempts, the published one among them, were refused one, or have audited
    tables."""
    refused = () if window.refusal is None else (window.refusal,)
    who = (each.who for some in (window.attempts, window.audits, refused) for each in some)
    return frozenset(str(each["dag_id"]) for each in who if each.get("dag_id"))
