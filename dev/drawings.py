"""The drawings of the docs, as SVG: ``python -m dev.drawings`` writes them to ``docs/pictures``.

They have their own background, so that they look the same on a dark page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap

from dev import ROOT

FOLDER = ROOT / "docs" / "pictures"
WIDTH = 760
INK, GREY, LINE = "#1f2430", "#6b7280", "#c9ced6"
COLOURS = ("#0072b2", "#e69f00", "#009e73")
"""Blue, orange and green that people with any colour vision can tell apart (Okabe and Ito)."""
RECORD, GAP = 26, 4


def text(x: float, y: float, words: str, *, colour: str = INK, size: int = 14, anchor: str = "start") -> str:
    """Text at a position."""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'


def caption(y: float, words: str) -> list[str]:
    """Sentences, wrapped over as many lines as they need."""
    return [text(20, y + number * 20, part) for number, part in enumerate(wrap(words, 98))]


def box(x: float, y: float, width: float, height: float, colour: str, *, filled: bool = True) -> str:
    """A rectangle."""
    fill = colour if filled else "none"
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" '
        f'stroke="{colour}" stroke-width="1.5"/>'
    )


def line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False, arrow: bool = False) -> str:
    """A line, optionally with an arrow at its end."""
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    head = ' marker-end="url(#arrow)"' if arrow else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{GREY}" stroke-width="1.5"{dash}{head}/>'


def picture(title: str, height: int, parts: Iterable[str]) -> str:
    """A whole drawing.

    :param title: what it shows, for people who can't see it.
    """
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{GREY}"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif"><title>{escape(title)}</title>'
    )
    ground = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>'
    return "\n".join([head, arrow, ground, *parts, "</svg>", ""])


def log(y: float, name: str, windows: Sequence[int]) -> list[str]:
    """A partition's log: a box for each record, in the colour of its window.

    :param windows: by offset, the record's window.
    """
    parts = [text(20, y + 18, name)]
    for offset, window in enumerate(windows):
        x = 130 + offset * (RECORD + GAP)
        parts += [
            box(x, y, RECORD, RECORD, COLOURS[window % len(COLOURS)]),
            text(x + RECORD / 2, y + 18, str(offset), colour="#ffffff", size=12, anchor="middle"),
        ]
    return parts


def boundary(y: float, offset: int) -> str:
    """A mark between two records."""
    x = 130 + offset * (RECORD + GAP) - GAP / 2
    return line(x, y - 10, x, y + RECORD + 10, dashed=True)


def windows_tile() -> str:
    """Draw why windows tile."""
    logs = {"orders-0": [0] * 6 + [1] * 8 + [2] * 5, "orders-1": [0] * 9 + [1] * 4 + [2] * 7}
    parts = [text(20, 34, "One topic, two partitions. Each record is a box with its offset.", colour=GREY)]
    for number, (name, records) in enumerate(logs.items()):
        y = 60 + number * 60
        parts += log(y, name, records)
        parts += [boundary(y, records.index(window)) for window in (1, 2)]
    for window, hour in enumerate(("06:00 to 07:00", "07:00 to 08:00", "08:00 to 09:00")):
        x = 130 + window * 200
        parts += [box(x, 190, 16, 16, COLOURS[window]), text(x + 24, 203, hour)]
    parts += caption(
        240,
        "07:00 is offset 6 on one partition and 9 on the other. Both windows that meet there use these two numbers, "
        "which are looked up once and stored. So no record is in two windows, and each is in one.",
    )
    return picture("Records of two partitions, divided into three windows that meet at stored offsets", 280, parts)


def snapshot() -> str:
    """Draw what a snapshot contains."""
    rows = (
        ("orders-0", "6", "the first record at or after 07:00"),
        ("orders-1", "9", "the first record at or after 07:00"),
        ("orders-2", "41", "the log end: no record is that late"),
        ("orders-3", "-", "Kafka didn't answer: then there is no snapshot at all"),
    )
    parts = [
        text(20, 34, "A snapshot: the topic as of 07:00"),
        text(40, 70, "partition", colour=GREY, size=12),
        text(190, 70, "offset", colour=GREY, size=12),
        text(290, 70, "how it was found", colour=GREY, size=12),
    ]
    for number, (name, offset, why) in enumerate(rows):
        y = 96 + number * 30
        fails = offset == "-"
        parts += [
            line(30, y - 19, WIDTH - 30, y - 19),
            text(40, y, name, colour=GREY if fails else INK),
            text(190, y, offset, colour=GREY if fails else COLOURS[0]),
            text(290, y, why, colour=GREY if fails else INK),
        ]
    parts += caption(
        230,
        "Also stored: the cluster's id, the topics' ids and the leader epochs. So a topic that was deleted and created "
        "again, or a log that lost its end, is noticed later. A snapshot never changes.",
    )
    return picture("A snapshot: one offset for each partition, and how each was found", 270, parts)


def publishing() -> str:
    """Draw how it is decided which rows count."""
    title = "Three attempts at one window: a retry, and a run that somebody started by hand"
    parts = [text(20, 34, title, colour=GREY)]
    for number, proved in enumerate((False, True, True)):
        name, end = f"attempt {number + 40}", "is proved" if proved else "dies half-way"
        y = 60 + number * 50
        parts += [
            box(30, y, 110, 32, COLOURS[0], filled=False),
            text(85, y + 21, name, anchor="middle"),
            line(142, y + 16, 216, y + 16, arrow=True),
            box(220, y, 150, 32, COLOURS[2] if proved else GREY, filled=False),
            text(295, y + 21, end, anchor="middle", colour=INK if proved else GREY),
        ]
    parts += [
        line(372, 126, 466, 138, arrow=True),
        line(372, 176, 466, 158, arrow=True),
        box(470, 128, 250, 40, COLOURS[1], filled=False),
        text(595, 153, "commit 43: attempt 41 counts", anchor="middle"),
        text(595, 190, "there is only one commit 43", anchor="middle", colour=GREY, size=12),
    ]
    parts += caption(
        232,
        "Whoever creates commit 43 first is published: here attempt 41. The task of attempt 42 finds that commit, and "
        "changes nothing. Its rows, and those of attempt 40, are never read.",
    )
    return picture(
        "Of three attempts at a window, the first proved one to create the next commit is published", 272, parts
    )


def the_log() -> str:
    """Draw a ledger's log, and two tasks that want its next number."""
    commits = (
        (38, ("snapshot 06:00", "snapshot 07:00", "window")),
        (39, ("attempt",)),
        (40, ("attempt", "(a retry)")),
        (41, ("published:", "attempt 40")),
        (42, ("verified",)),
    )
    parts = [text(20, 34, "The newest commits of a pipeline. Nothing else decides what counts.", colour=GREY)]
    for place, (number, says) in enumerate(commits):
        x = 20 + place * 120
        parts += [
            box(x, 56, 108, 86, COLOURS[0], filled=False),
            text(x + 54, 76, str(number), colour=COLOURS[0], anchor="middle"),
            *(text(x + 54, 96 + row * 17, words, size=12, anchor="middle") for row, words in enumerate(says)),
        ]
    parts += [
        box(620, 56, 120, 86, COLOURS[1], filled=False),
        text(680, 76, "43", colour=COLOURS[1], anchor="middle"),
        text(680, 105, "the next one", colour=GREY, size=12, anchor="middle"),
        box(150, 180, 250, 32, COLOURS[2], filled=False),
        text(275, 201, "a task resolves 07:00 to 08:00", anchor="middle", size=12),
        line(402, 190, 640, 148, arrow=True),
        box(430, 210, 250, 32, COLOURS[2], filled=False),
        text(555, 231, "a backfill resolves last week", anchor="middle", size=12),
        line(660, 208, 686, 148, arrow=True),
    ]
    parts += caption(
        274,
        "Both read the log up to 42 and decide what to add, but only one of them can create 43. The other reads what "
        "43 says, decides again, and creates 44.",
    )
    return picture("A ledger's log: numbered commits, and two tasks that both want to create the next one", 316, parts)


def states() -> str:
    """Draw the states of a window, and what leads from one to the next."""
    names = ("pinned", "loading", "proved", "published", "verified")
    steps = ("a load begins", "rows counted", "Kafka asked", "verify")
    xs, width = [20 + place * 152 for place in range(len(names))], 104
    parts = [text(20, 34, "Grey words are what happens; boxes are what ledger list and the page show.", colour=GREY)]
    for place, name in enumerate(names):
        colour = COLOURS[2] if name in ("published", "verified") else COLOURS[0]
        parts += [box(xs[place], 74, width, 36, colour, filled=False)]
        parts += [text(xs[place] + width / 2, 97, name, anchor="middle")]
    for place, step in enumerate(steps):
        parts += [line(xs[place] + width + 2, 92, xs[place + 1] - 4, 92, arrow=True)]
        parts += [text(xs[place] + width + 24, 66, step, colour=GREY, size=12, anchor="middle")]
    failed, loading, published = xs[1], xs[1] + width / 2, xs[3] + width / 2
    parts += [
        box(failed, 160, width, 36, COLOURS[1], filled=False),
        text(loading, 183, "failed", anchor="middle"),
        line(loading - 24, 112, loading - 24, 156, arrow=True),
        text(loading - 30, 138, "Spark or proof fails", colour=GREY, size=12, anchor="end"),
        line(loading + 24, 160, loading + 24, 114, arrow=True),
        text(loading + 30, 138, "a retry, or its run is cleared", colour=GREY, size=12),
        line(64, 112, 64, 178),
        line(64, 178, failed - 4, 178, arrow=True),
        text(70, 196, "a load is refused", colour=GREY, size=12),
        line(published, 112, published, 230),
        line(published, 230, 42, 230),
        line(42, 230, 42, 114, arrow=True),
        text(published - 10, 222, "ledger reload: to be loaded again", colour=GREY, size=12, anchor="end"),
    ]
    parts += caption(
        264,
        "A window is made, as pinned, when its run resolves it. Readers see its rows from published on; while it is "
        "loaded again, the old ones, until the new ones are published. A window that failed keeps its offsets.",
    )
    return picture(
        "The states of a window: pinned, loading, proved, published, verified; a failed one is loaded again", 324, parts
    )


def first_dag() -> str:
    """Draw what the quickstart's Dag does, task by task."""
    tasks = (
        ("complete", ("waits until the hour", "is in the log"), "Kafka"),
        ("resolve", ("looks up offsets,", "stores the window"), "ledger: window"),
        ("load", ("runs Spark on", "exactly these records"), "rows"),
        ("verify", ("proves that each", "was loaded once"), "ledger: proof"),
    )
    parts = [text(20, 34, "The run for 06:00 to 07:00, which starts at 07:00", colour=GREY)]
    for number, (name, does, place) in enumerate(tasks):
        x = 40 + number * 187
        parts += [box(x, 56, 120, 36, COLOURS[0], filled=False), text(x + 60, 79, name, anchor="middle")]
        parts += [
            text(x + 60, 114 + row * 17, words, colour=GREY, size=12, anchor="middle") for row, words in enumerate(does)
        ]
        ends = (172, 142) if place == "Kafka" else (142, 170)
        parts += [
            line(x + 60, ends[0], x + 60, ends[1], arrow=True),
            box(x, 174, 120, 32, COLOURS[2] if place == "rows" else COLOURS[1], filled=False),
            text(x + 60, 195, place, anchor="middle", size=12),
        ]
        if number:
            parts.append(line(x - 65, 74, x - 3, 74, arrow=True))
    return picture("A Dag of four tasks: complete, resolve, load and verify, and what each of them does", 226, parts)


DRAWINGS: dict[str, Callable[[], str]] = {
    "windows-tile.svg": windows_tile,
    "snapshot.svg": snapshot,
    "publishing.svg": publishing,
    "log.svg": the_log,
    "first-dag.svg": first_dag,
    "states.svg": states,
}


def write(folder: Path = FOLDER) -> None:
    """Write all drawings."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        (folder / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    write()
