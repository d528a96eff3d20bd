"""``kafka-offsets ledger reload``, ``void``, ``rewind`` and ``restart``: each changes the ledger by one commit.

With ``--dry-run``, the decision is made and shown in the same way, and not committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client, stored_ledger
from airflow_kafka_offsets.cli.instants import instant
from airflow_kafka_offsets.cli.ledger import named_windows
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_remark, print_rows
from airflow_kafka_offsets.cli.values import refuse_beside
from airflow_kafka_offsets.errors import ConfigurationError, number_of, shorten
from airflow_kafka_offsets.ledger import corrections, file_lists, load_decisions
from airflow_kafka_offsets.ledger.entries import Entries
from airflow_kafka_offsets.ledger.holes import ended_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Commit, State, Window, fold
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.run_result import RUN
from airflow_kafka_offsets.pipelines.attempts import outnumber, unloadable
from airflow_kafka_offsets.pipelines.log_changes import restart_found
from airflow_kafka_offsets.runs.around import told_runs

_CHANGED = (
    Column("what", unless=("window",)),
    Column("name"),
    Column("change"),
    Column("offsets"),
    Column("attempt", unless=(None,), spare=True),
    Column("rows", unless=(None,)),
)
_LEFT = (
    Column("topic", folds=True),
    Column("partition", "part"),
    Column("start_offset", "start"),
    Column("end_offset", "end"),
    Column("offsets"),
)
_ATTEMPT = re.compile(rf"([0-9]{{1,9}})-({RUN.pattern})")
Decide = Callable[[State], Entries]
Then = Callable[[State, State], str]
"""Says what follows from a change, by the state before and after it."""


@command
def reload_windows(args: Any) -> int:
    """Have windows loaded again, or take that back, and print one row for each."""
    ledger = stored_ledger(args)
    windows = named_windows(ledger, args.windows, args.at)
    over = None if args.over is None else _over(args, windows)
    if args.take_back:
        refuse_beside(args, "--take-back", "--over")
        kept = "Their published rows satisfy loads again. Clear their verify tasks to have that checked."
        return _change(ledger, args, partial(load_decisions.take_back, windows=windows), lambda *_: kept)
    for gone in unloadable(ledger, lambda: kafka_client(args), windows, None, args.on_data_loss).values():
        raise gone
    before = [ledger.window(name) for name in windows]  # with the attempts that count until now
    then = "Readers keep the old rows until the new ones are published."
    code = _change(ledger, args, lambda state: load_decisions.reload(state, windows), lambda *_: then)
    again = [window for window in before if ledger.window(window.name).reloaded]
    for line in () if args.dry_run else told_runs(again):
        print_remark(line)
    if over is not None and not args.dry_run:
        number, run = over
        outnumber(ledger, windows[0], number, run)
        print_remark(f"The next load's rows replace those of attempt {number} in a table: its number is above it.")
    return code


def _over(args: Any, windows: Sequence[str]) -> tuple[int, str]:
    """The attempt and the run of ``--over``."""
    match = _ATTEMPT.fullmatch(args.over)
    if match is None or len(windows) != 1:
        raise ConfigurationError(
            "--over takes one window's attempt and its run, as the error of its load names them: 95-1f2e3d4c; not "
            f"{args.over!r} for {number_of(len(windows), 'window')}."
        )
    return int(match[1]), match[2]


@command
def void_windows(args: Any) -> int:
    """Take windows away, and print one row for each."""
    ledger = stored_ledger(args)
    windows = named_windows(ledger, args.windows, args.at)
    return _change(ledger, args, partial(corrections.void, windows=windows, force=args.force), _left_over)


@command
def rewind(args: Any) -> int:
    """Take everything away after an instant, and print one row for each window and snapshot."""
    decide = partial(corrections.rewind, to_ms=instant(args.to), force=args.force)
    return _change(stored_ledger(args), args, decide, _left_over)


def _left_over(before: State, after: State) -> str:
    """The rows that are in no window any more, in words."""
    gone = (window for name, window in before.windows.items() if name not in after.windows)
    named = [
        f"{number_of(each.rows, 'row')} of {window.name} in {each.output}"
        for window in gone
        if window.publication is not None
        for each in window.publication.outputs
        if each.output is not None
    ]
    if not named:
        return "Nothing that was taken away has published rows."
    return f"These rows are in no window any more, delete them yourself: {shorten(named)}."


def _change(ledger: Ledger, args: Any, decide: Decide, then: Then) -> int:
    """Commit what is decided, unless this is a dry run, and print what it changes.

    :param then: what follows from it for the user.
    """
    before, after, number = _changed(ledger, decide, dry=args.dry_run)
    rows = list(_rows(before, after))
    print_rows(rows, args, _CHANGED)
    if number:
        print_remark(f"Commit {number}. {then(before, after)}")
    elif not rows:
        print_remark("Nothing had to be changed.")
    else:
        print_remark("Nothing was changed: leave out --dry-run to do this.")
    return 0


def _changed(ledger: Ledger, decide: Decide, *, dry: bool) -> tuple[State, State, int]:
    """The state before and after, and the commit's number; 0 without one."""
    if dry:
        before, entries = ledger.state, decide(ledger.state)
        return before, fold(before, [Commit(before.number + 1, entries)]) if entries else before, 0
    seen = [ledger.state]

    def decide_on(state: State) -> Entries:
        seen.append(state)
        return decide(state)

    number = ledger.change(decide_on)
    gone = seen[-1].windows.keys() - ledger.state.windows.keys()
    in_parallel(lambda name: file_lists.correct(ledger, name), gone)  # or verification does it
    return seen[-1], ledger.state, number


def _rows(before: State, after: State) -> Iterator[Row]:
    """A row for each window and snapshot that no longer counts, or is to be loaded again."""
    for window in before.windows.values():
        now = after.windows.get(window.name)
        if now is None:
            yield _window_row(window, "no longer counts")
        elif now.reloaded != window.reloaded:
            yield _window_row(window, "to be loaded again")
        elif now.publication != window.publication:
            yield _window_row(window, "loaded")
    for snapshot in before.snapshots.values():
        if snapshot.at_ms not in after.snapshots:
            yield _row("snapshot", iso_instant(snapshot.at_ms), "no longer counts")
    for restart in before.restarts:
        if restart not in after.restarts:
            yield _row("restart", iso_instant(restart.at_ms), "no longer counts")


def _window_row(window: Window, change: str) -> Row:
    published, newest = window.publication, window.newest_attempt
    attempt = published.attempt if published is not None else None if newest is None else newest.number
    outputs = () if published is None else published.outputs
    return _row("window", window.name, change) | {
        "offsets": window.offsets,
        "attempt": attempt,
        "rows": None if published is None else published.rows,
        "output": [each.output for each in outputs if each.output is not None],
    }


def _row(what: str, name: str, change: str) -> Row:
    unknown: Row = {"offsets": None, "attempt": None, "rows": None, "output": []}
    return {"what": what, "name": name, "change": change} | unknown


@command
def restart(args: Any) -> int:
    """Begin topics anew, and print what was left unloaded of the old ones: one row per partition and range."""
    ledger = stored_ledger(args)
    with kafka_client(args) as client:
        wish = restart_found(client, ledger)
    decide = partial(corrections.restart, wish=wish, contents=ledger.contents)
    _, ledger.state, number = _changed(ledger, decide, dry=args.dry_run)
    begun = ledger.state.restarts[-1]
    print_rows([each._asdict() | {"offsets": each.span} for each in begun.unloaded], args, _LEFT)
    done = f"Commit {number}: these topics begin" if number else "Nothing was changed. These topics would begin"
    print_remark(
        f"{done} anew after {iso_instant(begun.at_ms - 1)}: {', '.join(begun.topics)}, because {begun.why}. "
        f"{_left_words(ledger, begun.unloaded)}"
    )
    return 0


def _left_words(ledger: Ledger, lost: Sequence[LogRange]) -> str:
    offsets, waiting = sum(each.span for each in lost), [each.name for each in ended_windows(ledger)]
    outside = f"at least {number_of(offsets, 'offset')} of the old logs are in no published window" if offsets else ""
    inside = f"void what can't be loaded as it is any more: {shorten(waiting)}" if waiting else ""
    words = "; ".join(filter(None, (outside, inside)))
    return f"What was left unloaded: {words}." if words else "As far as is known, nothing was left unloaded."
