"""Entries of the log of snapshots, as the index by time names them: ``20261121T060000000Z_00000042_instant``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from airflow_kafka_offsets.offsets.instants import compact_instant, parse_instant
from airflow_kafka_offsets.offsets.snapshots import AsOf, AsOfKind, OffsetSnapshot

FORGET = "forget"
_MARKER = re.compile(rf"(\d{{8}}T\d{{9}}Z)_(\d{{8}})_({'|'.join([*AsOfKind, FORGET])})(?:-([0-9a-z]+))?")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One entry of the log.

    :param timestamp_ms: its place in time, Unix milliseconds.
    :param number: its place in the log.
    :param kind: what it is as of, an :class:`AsOfKind`; or ``forget``, when it forgets that instant's earlier ones.
    :param run: whose increment it ends; empty for another kind.
    """

    timestamp_ms: int
    number: int
    kind: str
    run: str = ""

    @property
    def marker(self) -> str:
        """Its name in the index."""
        run = f"-{self.run}" if self.run else ""
        return f"{compact_instant(self.timestamp_ms)}_{self.number:08d}_{self.kind}{run}"

    @property
    def month(self) -> str:
        """Its folder in the index."""
        return compact_instant(self.timestamp_ms)[:6]

    @property
    def instant(self) -> int | None:
        """The instant that it is about, Unix milliseconds; None when it isn't about one."""
        return self.timestamp_ms if self.kind in (AsOfKind.INSTANT, FORGET) else None

    @property
    def once(self) -> int | str | None:
        """Of what there is one snapshot only: its instant, or its run; None when there may be several."""
        return self.run or self.instant

    @classmethod
    def of(cls, snapshot: OffsetSnapshot) -> Self:
        """The entry of a numbered snapshot."""
        assert snapshot.number is not None
        return cls(snapshot.timestamp_ms, snapshot.number, snapshot.as_of.kind, snapshot.as_of.run or "")

    @classmethod
    def of_marker(cls, name: str) -> Self | None:
        """The entry that a marker names; None for another name."""
        match = _MARKER.fullmatch(name)
        return None if match is None else cls(parse_instant(match[1]), int(match[2]), match[3], match[4] or "")

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any] | None) -> Self | None:
        """The entry that a file of the log holds; None when there is no file."""
        if fields is None:
            return None
        if "forgets_ms" in fields:
            return cls(fields["forgets_ms"], fields["number"], FORGET)
        as_of = AsOf.from_json(fields["as_of"])
        timestamp_ms = fields["resolved_at_ms"] if as_of.timestamp_ms is None else as_of.timestamp_ms
        return cls(timestamp_ms, fields["number"], as_of.kind, as_of.run or "")


def last_forgotten(entries: Iterable[Entry]) -> dict[int, int]:
    """Numbers of the snapshots that were forgotten last, by their instants."""
    ordered = sorted(entries)
    counting = set(live(ordered))
    return {
        each.timestamp_ms: each.number for each in ordered if each.kind == AsOfKind.INSTANT and each not in counting
    }


def live(entries: Iterable[Entry]) -> list[Entry]:
    """The snapshots that count, in order of time: neither forgotten nor what forgets."""
    ordered = sorted(entries)
    forgotten = {each.timestamp_ms: each.number for each in ordered if each.kind == FORGET}
    return [
        each
        for each in ordered
        if each.kind != FORGET and not (each.instant is not None and each.number < forgotten.get(each.instant, 0))
    ]
