"""An overview: a pipeline in one row. It agrees with ``ledger list`` and ``ledger verify``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from airflow_kafka_offsets.errors import LedgerError, number_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.unloaded import Unloaded, tiling_of, unloaded
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.page.answer import Answer, encoded
from airflow_kafka_offsets.page.writers import dags_of_pipeline

_DRAWN = 48
"""How many windows the drawing of rows per window shows."""


@dataclass(frozen=True, slots=True)
class Overview:
    """One pipeline.

    :param topics: the newest window's topics; before the first window, the topics that the ledger was opened with.
    :param windows: how many windows there are, published or not.
    :param published: the published window that ends last; None if there is none.
    :param proved: the verified window that ends last; None if there is none.
    :param states: how many windows are in each state.
    :param losses: what windows have lost, in words: gone when they were pinned, or deleted before they were loaded.
    :param holes: every hole between windows, in words.
    :param problems: overlaps, and windows that meet in time but not in offsets, in words.
    :param lost_offsets: number of offsets that windows have lost.
    :param gone_offsets: number of offsets that no published window has, and that Kafka had deleted when the newest
        snapshots were taken; None without windows, and if the snapshots can't be read.
    :param unloaded_from_ms: from when on records aren't loaded, Unix milliseconds; None without windows.
    :param retention_ms: the shortest retention of the topics; -1 if all are kept forever, as compacted topics are; None
        if it isn't known for one of them.
    :param rows: rows of the last published windows, in order of time.
    :param dag_ids: the Dags that load the pipeline.
    """

    pipeline: str
    topics: tuple[str, ...]
    windows: int
    published: str | None
    proved: str | None
    states: dict[str, int]
    losses: tuple[str, ...]
    holes: tuple[str, ...]
    problems: tuple[str, ...]
    lost_offsets: int
    gone_offsets: int | None
    unloaded_from_ms: int | None
    retention_ms: int | None
    rows: tuple[int, ...]
    dag_ids: frozenset[str]


def overview(ledger: Ledger) -> Answer:
    """The overview of a pipeline, with the summaries that it was made from.

    :raises LedgerError: when the ledger can't be read or is damaged.
    """
    ledger.exists()
    summaries = ledger.summaries()
    found = _overview(ledger, summaries)
    return Answer(encoded(asdict(found) | {"dag_ids": sorted(found.dag_ids)}), found.dag_ids, summaries)


def _overview(ledger: Ledger, summaries: Sequence[WindowSummary]) -> Overview:
    by_end = sorted(summaries, key=lambda summary: summary.end_ms)
    published = [summary for summary in by_end if summary.attempt is not None]
    proved = [summary.window for summary in published if summary.state is WindowState.VERIFIED]
    tiling = tiling_of(ledger, summaries, {})
    missing = unloaded(summaries, tiling)
    facts = topic_facts(ledger, summaries)
    loaded = {summary.window for summary in published}
    counting = (summary for summary in by_end if summary.attempt is not None or summary.window not in loaded)
    losses = {summary: lost for summary in counting if (lost := _lost(ledger, summary))}
    return Overview(
        pipeline=ledger.pipeline,
        topics=tuple(sorted(facts)) if summaries else tuple((ledger.read_pipeline() or {}).get("topics", ())),
        windows=len({summary.window for summary in summaries}),
        published=published[-1].window if published else None,
        proved=proved[-1] if proved else None,
        states=dict(Counter(summary.state for summary in summaries)),
        losses=tuple(f"{number_of(lost, 'offset')} of window {summary.window}" for summary, lost in losses.items()),
        holes=tiling.holes,
        problems=tiling.problems,
        lost_offsets=sum(losses.values()),
        gone_offsets=None if missing is None else _gone(ledger, summaries, missing),
        unloaded_from_ms=None if missing is None else missing.since_ms,
        retention_ms=_shortest_retention(facts.values()),
        rows=tuple(summary.rows for summary in published[-_DRAWN:] if summary.rows is not None),
        dag_ids=dags_of_pipeline(ledger, summaries),
    )


def _lost(ledger: Ledger, summary: WindowSummary) -> int:
    """How many offsets a window has lost: when it was pinned, and since."""
    if summary.state is not WindowState.LOST:
        return summary.lost_offsets
    later = ledger.window_folders.folder(summary.window, summary.revision).lost_since()
    return summary.lost_offsets + sum(later.values())


def _gone(ledger: Ledger, summaries: Sequence[WindowSummary], missing: Unloaded) -> int | None:
    """How many offsets Kafka had deleted of what no published window has."""
    try:
        starts = _log_starts(ledger, summaries)
    except LedgerError:  # ledger verify names the file; the windows can be shown without it
        return None
    ranges = missing.ranges(ledger)
    return sum(gone_of(each, starts.get(TopicPartition.of(each), each.start_offset)) for each in ranges)


def gone_of(unloaded: LogRange, log_start_offset: int) -> int:
    """How many offsets of a range are before the log start."""
    return max(0, min(log_start_offset, unloaded.end_offset) - unloaded.start_offset)


def unloaded_ranges(ledger: Ledger, summaries: Sequence[WindowSummary]) -> list[LogRange] | None:
    """The ranges that no published window has, from the first window on to the log end, wherever that is. None without
    windows.

    :raises LedgerError: when the ledger can't be read or is damaged.
    """
    missing = unloaded(summaries, tiling_of(ledger, summaries, {}))
    return None if missing is None else missing.ranges(ledger)


def _log_starts(ledger: Ledger, summaries: Sequence[WindowSummary]) -> Mapping[TopicPartition, int]:
    """Log starts, from the windows' newest snapshot and from the one at the end of the last window.

    Both are needed: the newest may be a backfill's, which can lack partitions that were added later.
    """
    last = max(summaries, key=lambda summary: summary.end_ms)
    starts: dict[TopicPartition, int] = {}
    for number in {max(summary.end_snapshot for summary in summaries), last.end_snapshot}:
        for partition, boundary in ledger.snapshots.read(number).boundaries.items():
            starts[partition] = max(boundary.log_start_offset, starts.get(partition, 0))
    return starts


def topic_facts(ledger: Ledger, summaries: Sequence[WindowSummary]) -> Mapping[str, TopicFacts]:
    """The topics, as they were when the newest window was pinned."""
    if not summaries:
        return {}
    newest = summaries[-1]
    return ledger.pinned(newest.window, newest.revision).manifest.topics


def _shortest_retention(topics: Iterable[TopicFacts]) -> int | None:
    kept = [_kept_ms(topic) for topic in topics]
    if not kept or None in kept:
        return None
    return min((ms for ms in kept if ms is not None and ms >= 0), default=-1)


def _kept_ms(topic: TopicFacts) -> int | None:
    if topic.cleanup_policy is not None and "delete" not in topic.cleanup_policy:
        return -1
    return None if topic.cleanup_policy is None else topic.retention_ms
