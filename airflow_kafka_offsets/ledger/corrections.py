"""Corrections: decisions that take away what shouldn't count, or say that topics are other logs from here on.

As in :mod:`.decisions`, each is a function of a state and a wish. Loading a window again is in :mod:`.load_decisions`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import chain, pairwise

from airflow_kafka_offsets.errors import LedgerConflictError, number_of, shorten
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.entries import Entries, Restarted, Rewound, Voided
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged
from airflow_kafka_offsets.offsets.windows.manifest import ranges_between
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot


def void(state: State, windows: Collection[str], *, force: bool = False) -> Entries:
    """Windows that should not exist: their times are free again, and get the same snapshots.

    :param force: also when they are published.
    :raises LedgerConflictError: when one isn't there, or is published and ``force`` isn't set; names its rows.
    """
    chosen = dict.fromkeys(windows)
    _refuse_published([state.window(name) for name in chosen], force)
    return tuple(map(Voided, chosen))


def rewind(state: State, to_ms: int, *, force: bool = False) -> Entries:
    """Everything after an instant stops counting: snapshots, restarts with all that was decided after them, and the
    windows that end after it.

    :param to_ms: the instant, Unix milliseconds.
    :param force: also when such windows are published.
    :raises LedgerConflictError: when they are, and ``force`` isn't set; names their rows.
    """
    times = [*state.snapshots, *(restart.at_ms for restart in state.restarts)]
    if not any(at_ms > to_ms for at_ms in times):
        return ()
    counts = state.counts_after(to_ms)
    _refuse_published([each for each in state.windows.values() if not counts(each.number, each.end_ms)], force)
    return (Rewound(to_ms),)


def _refuse_published(windows: Collection[Window], force: bool) -> None:
    published = [window for window in windows if window.publication is not None]
    if published and not force:
        rows = shorten(
            f"{number_of(output.rows, 'row')} of {window.name} in {output.output or 'no output'}"
            for window in published
            if window.publication is not None
            for output in window.publication.outputs
        )
        raise LedgerConflictError(
            f"{number_of(len(published), 'window')} of these {'is' if len(published) == 1 else 'are'} published: "
            f"{rows}. With --force they stop counting, and these rows are in no window: delete them yourself."
        )


def restart(state: State, wish: Restarted, contents: Contents) -> Entries:
    """Some topics are other logs from here on.

    :param wish: the restart, without its place in time.
    :raises LedgerConflictError: when the pipeline has no snapshot with such a topic, or it is begun anew already.
    """
    stored = state.newest_snapshot
    newest = None if stored is None else contents.snapshot(stored.offsets)
    if stored is not None and newest is not None and wish.cluster_id is None:
        newest = state.anew(newest, stored.at_ms)
    strange = sorted(set(wish.topics) - set(() if newest is None else newest.topics))
    if stored is None or strange:
        raise LedgerConflictError(
            f"{shorten(strange or wish.topics)}: no snapshot of this pipeline has it, or it was restarted since, so "
            "there is nothing to restart."
        )
    if wish.cluster_id is not None and wish.cluster_id == state.cluster_id:
        raise LedgerConflictError(f"The pipeline is on cluster {wish.cluster_id} already: nothing is restarted.")
    return (wish._replace(at_ms=stored.at_ms + 1, unloaded=tuple(_unloaded(state, wish, contents))),)


def _unloaded(state: State, wish: Restarted, contents: Contents) -> list[LogRange]:
    """What snapshots have seen of the logs that a restart ends, and no published window has."""
    offsets_at = partial(contents.snapshot_at, state)
    times, loaded = list(state.snapshots), [(each.start_ms, each.end_ms) for each in state.published]
    gaps = pairwise([(0, times[0]), *loaded, (times[-1], 0)])
    ranges = [ranges_between(offsets_at(start), offsets_at(end)) for (_, start), (end, _) in gaps if start < end]
    seen = [each.log_range for each in chain(*ranges)]
    seen += [LogRange(*key, each.offset, each.high_watermark) for key, each in offsets_at(times[-1]).boundaries.items()]
    cut = {TopicPartition.of(each): each.offset for each in wish.truncated}
    ended = set(wish.topics) - {key.topic for key in cut}
    rest = [
        each._replace(start_offset=max(each.start_offset, cut.get(TopicPartition.of(each), 0)))
        for each in seen
        if each.topic in ended or TopicPartition.of(each) in cut
    ]
    return merged(each for each in rest if each.span > 0)


def ends_on(state: State, cluster_id: str, contents: Contents) -> OffsetSnapshot | None:
    """Where the windows on a cluster ended before the pipeline went to another one; None if it had none there."""
    moves = [each for each in state.restarts if each.cluster_id is not None]
    clusters = [state.begun.cluster_id, *(each.cluster_id for each in moves)]
    begins_ms = [0, *(each.at_ms for each in moves)]
    for known, begin_ms, move in reversed(list(zip(clusters, begins_ms, moves, strict=False))):
        ends = [each.end_ms for each in state.windows.values() if each.number < move.number]
        ended = [at_ms for at_ms in ends if begin_ms <= at_ms < move.at_ms]
        if known == cluster_id and ended:
            return contents.snapshot_at(state, ended[-1], move.number - 1)
    return None
