"""The judge of publications: does each say what its driver has counted, and are these the rows that are there?

It only compares the contents of files. It shares no code with what it judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.chaos.judge import Key, Times
from tests.chaos.ledger_files import Counted
from tests.chaos.replay import Kept

Holding = Mapping[Times, Mapping[Key, list[int]]]
"""Offsets in the outputs of publications that count, by topic and partition; all by window."""


def judge_publication(kept: Kept, counted: Counted | None, held: int, held_by: int | None = None) -> Iterator[str]:
    """Everything that is wrong with the publication of a window.

    :param counted: what its driver has counted.
    :param held: how many rows its output has.
    :param held_by: number of the attempt whose rows a table has; None for files.
    """
    says = kept.published
    assert says is not None
    name = f"attempt {says['attempt']}-{says['run']}"
    if counted is None:
        yield f"{name} is published, and has counted nothing"
        return
    if says["result"] != counted.sha256:
        yield f"{name} is published with another result than there is"
    if counted.manifest != kept.manifest:
        yield f"{name} has read another manifest than the window's"
    ((_, _, output, rows),) = says["outputs"]
    if output != counted.output:
        yield f"{name} is published in {output}, and has written to {counted.output}"
    if not rows == counted.rows == held:
        yield f"{name} is published with {rows} rows, of which it has counted {counted.rows}, and there are {held}"
    if held_by not in (None, says["attempt"]):
        yield f"{name} is published, and the table has the rows of attempt {held_by}"


def judge_kept(before: Holding, after: Holding) -> list[str]:
    """Windows that are gone, or whose rows have changed.

    :param before: the rows at some time.
    :param after: the same at a later time, if nothing was taken away since.
    """
    gone = [f"window {window} is gone" for window in sorted(before.keys() - after.keys())]
    changed = sorted(each for each in before.keys() & after if _sorted(before[each]) != _sorted(after[each]))
    return gone + [f"window {window} has other rows by now" for window in changed]


def judge_lists(holding: Holding, listed: Holding) -> list[str]:
    """Windows whose list names files with other rows than those published.

    :param holding: the rows of all publications that have files.
    :param listed: the rows in the files that lists name; absent if there is no list.
    """
    wrong = [
        each
        for each in sorted(holding.keys() | listed.keys())
        if _sorted(listed.get(each, {})) != _sorted(holding.get(each, {}))
    ]
    return [f"the list of window {window} names other rows than are published" for window in wrong]


def _sorted(rows: Mapping[Key, list[int]]) -> dict[Key, list[int]]:
    return {key: sorted(offsets) for key, offsets in rows.items() if offsets}


def judge_apart(one: Mapping[Times, Kept], other: Mapping[Times, Kept]) -> list[str]:
    """Outputs that two ledgers have both published."""
    places = [
        {each[2] for kept in ledger.values() if kept.published is not None for each in kept.published["outputs"]}
        for ledger in (one, other)
    ]
    return [f"both ledgers have published {each}" for each in sorted((places[0] & places[1]) - {None})]
