"""The report: a line about the machine, and one table."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Self

from rich.table import Table

from dev.kafka import KAFKA_VERSION
from tests.benchmarks.timing import Taken

_PACKAGES = ("kafka-python", "confluent-kafka")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    :param work: what was done.
    :param ours: seconds that this package took; None if something else is measured.
    :param peer: the peer that did it too.
    :param theirs: seconds that the peer took.
    :param result: the value that is compared with ``limit``; None for a row without a target.
    :param unit: of both; ``x`` for our time divided by the peer's.
    :param limit: the target: the result must not be greater.
    :param requests: what was sent, or another remark.
    :param least: the ratio of the round that was best for us; None if there are no rounds.
    :param greatest: the ratio of the worst round.
    """

    work: str
    ours: float | None = None
    peer: str = ""
    theirs: float | None = None
    result: float | None = None
    unit: str = ""
    limit: float | None = None
    requests: str = ""
    least: float | None = None
    greatest: float | None = None

    @classmethod
    def compared(
        cls, work: str, ours: Taken, peer: str, theirs: Taken, *, limit: float | None, requests: str = ""
    ) -> Self:
        """Our time divided by that of a peer, who took turns with us."""
        each = [mine / other for mine, other in zip(ours.rounds_s, theirs.rounds_s, strict=True)]
        result = ours.s / theirs.s
        return cls(work, ours.s, peer, theirs.s, result, "x", limit, requests, min(each), max(each))

    @classmethod
    def ratio(
        cls, work: str, ours: float, peer: str, theirs: float, *, limit: float | None, requests: str = ""
    ) -> Self:
        """Our time divided by a peer's."""
        return cls(work, ours, peer, theirs, ours / theirs, "x", limit, requests)

    @classmethod
    def absolute(cls, work: str, result: float, unit: str, *, limit: float, requests: str = "") -> Self:
        """A number that isn't compared with a peer."""
        return cls(work, result if unit == "s" else None, result=result, unit=unit, limit=limit, requests=requests)

    @classmethod
    def noted(cls, work: str, requests: str, theirs: float | None = None) -> Self:
        """Additional information on the previous row, without a target."""
        return cls(work, theirs=theirs, requests=requests)

    @property
    def met(self) -> bool | None:
        """Whether the target is met, with the table's precision; None if there is no target."""
        if self.result is None or self.limit is None:
            return None
        digits = _digits(self.unit)
        return round(self.result, digits) <= round(self.limit, digits)


def _digits(unit: str) -> int:
    return {"x": 2, "s": 2, "rounds": 1}.get(unit, 0)


def machine() -> str:
    """The machine and versions, in one line."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {platform.machine()}, {python}, {packages}, Kafka {KAFKA_VERSION}"


def as_table(rows: Iterable[Row]) -> Table:
    """All rows."""
    table = Table("work")
    for name in ("ours", "peer", "theirs", "result", "of rounds", "target", "met"):
        table.add_column(name, justify="left" if name in ("peer", "met") else "right", no_wrap=name != "peer")
    table.add_column("requests")
    for each in rows:
        met = {True: "yes", False: "[bold red]NO", None: ""}[each.met]
        target = "" if each.limit is None else f"≤ {_number(each.limit, each.unit)}"
        table.add_row(
            each.work,
            _number(each.ours, "s"),
            each.peer,
            _number(each.theirs, "s"),
            _number(each.result, each.unit),
            "" if each.least is None else f"{each.least:.2f} to {each.greatest:.2f}",
            target,
            met,
            each.requests,
        )
    return table


def _number(number: float | None, unit: str) -> str:
    return "" if number is None else f"{number:.{_digits(unit)}f} {unit}"


def as_json(rows: Iterable[Row]) -> dict[str, Any]:
    """All rows and the machine, for programs."""
    return {"machine": machine(), "rows": [asdict(each) | {"met": each.met} for each in rows]}
