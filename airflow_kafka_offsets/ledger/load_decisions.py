"""Decisions about loads: which attempts begin, and whose rows count. As :mod:`.decisions`, of which they are a part.

Where one takes a manifest, it is the hash of the one that its caller has read: raises as :meth:`.State.window`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError, shorten
from airflow_kafka_offsets.ledger.entries import (
    Attempted,
    Audited,
    Entries,
    Output,
    Published,
    RecordsCounted,
    Refused,
    Reloaded,
    Verified,
)
from airflow_kafka_offsets.ledger.state import State, Window


def begin(state: State, wish: Attempted, manifest: str) -> Entries:
    """Begin an attempt at a window, unless its publication satisfies a load."""
    window = state.window(wish.window, manifest)
    return () if window.loaded is not None else (wish,)


def refuse(state: State, wish: Refused, manifest: str) -> Entries:
    """Record that a load was refused before an attempt began: once for a run, unless its retries are told something
    else.

    :param manifest: hash of the manifest that the load has.
    :raises LedgerConflictError: when the window isn't there, or is another one of that name.
    """
    window = state.window(wish.window, manifest)
    known = window.refused
    is_known = known is not None and _of_a_run(known) == _of_a_run(wish)
    return () if window.loaded is not None or is_known else (wish,)


def _of_a_run(refused: Refused) -> tuple[object, ...]:
    return (refused.error, refused.message, *map(refused.who.get, ("dag_id", "run_id", "task_id", "map_index")))


def count(state: State, wish: RecordsCounted, manifest: str) -> Entries:
    """Record which offsets of a window have a record, once."""
    return () if state.window(wish.window, manifest).census is not None else (wish,)


def audit(state: State, wish: Audited, manifest: str) -> Entries:
    """Record an audit, once. A later one of the same table takes an earlier one's place."""
    window = state.window(wish.window, manifest)
    known = next((each for each in window.audits if each.table == wish.table), None)
    is_old = known is not None and (known.run == wish.run or known.audited_ms > wish.audited_ms)
    return () if is_old else (wish,)


def publish(state: State, wish: Published, manifest: str) -> Entries:
    """Publish an attempt, unless a publication stands already.

    :raises CommitConflictError: when the window is to be loaded again since the attempt began, or a later attempt may
        have replaced its rows: another attempt helps.
    """
    window = state.window(wish.window, manifest)
    if window.loaded is not None:
        return ()
    may = [each.number for each in window.open_attempts]
    if wish.attempt not in may:
        raise CommitConflictError(
            f"Attempt {wish.attempt} at window {wish.window} is not published: the window is to be loaded again since. "
            "Run the task again."
        )
    if not wish.apart and may[-1] > wish.attempt:
        raise CommitConflictError(
            f"Attempt {wish.attempt} at window {wish.window} is not published: attempt {may[-1]} began later to "
            f"write to {_places(wish.outputs)}, where its rows replace this attempt's. It may still be running or may "
            "have died. Run the task again."
        )
    return (wish,)


def record_verdict(state: State, wish: Verified) -> Entries:
    """Record the verdict on the publication that counts. The first one stays.

    :raises LedgerConflictError: when another attempt is published.
    """
    window = state.window(wish.window)
    counts = window.publication
    if counts is None or counts.attempt != wish.attempt:
        now = "nothing" if counts is None else f"attempt {counts.attempt}"
        raise LedgerConflictError(
            f"The verdict on attempt {wish.attempt} at window {wish.window} isn't recorded: {now} is published now. "
            "Verify again."
        )
    return () if counts.verdict is not None else (wish,)


def reload(state: State, windows: Collection[str], by: str | None = None) -> tuple[Reloaded, ...]:
    """Windows are to be loaded again: what was attempted and published before no longer satisfies a load.

    :param by: the run of a task that asks for it. Its retries change nothing, whoever has asked since; so that they
        know, its wish is recorded also where nothing was attempted before.
    :raises LedgerConflictError: when one isn't there.
    """
    return tuple(
        Reloaded(window.name, by)
        for window in [state.window(name) for name in dict.fromkeys(windows)]
        if (by not in window.reloaded_by if by is not None else window.attempts or window.publication is not None)
    )


def take_back(state: State, windows: Collection[str]) -> Entries:
    """Windows needn't be loaded again after all: what readers have had of them since satisfies loads again.

    :raises LedgerConflictError: when one isn't there, was never published, or its rows may have been replaced since.
    """
    return tuple(
        _published_again(window)
        for window in [state.window(name) for name in dict.fromkeys(windows)]
        if window.loaded is None
    )


def _published_again(window: Window) -> Published:
    stands, newest = window.publication, window.newest_attempt
    if stands is None:
        raise LedgerConflictError(f"Window {window.name} was never published: there is no reload to take back.")
    if newest is not None and not stands.apart:
        raise LedgerConflictError(
            f"Attempt {newest.number} at window {window.name} has begun since it is to be loaded again, and may have "
            f"replaced its rows in {_places(stands.outputs)}. Run its load."
        )
    return stands._replace(number=0, verdict=None)


def _places(outputs: Iterable[Output]) -> str:
    return shorten(each.output for each in outputs if each.output)


def attempt_of(window: Window, number: int) -> Attempted:
    """An attempt at a window that may be published, or is.

    :raises CommitConflictError: when the window has no such attempt any more: another attempt helps.
    """
    attempt = window.attempt(number)
    if attempt is None:
        raise CommitConflictError(
            f"Window {window.name} has no attempt {number} that may still be published: a later one was published, or "
            "the window was voided and resolved again since. Run the load again."
        )
    return attempt
