"""Entries of the log of snapshots, as the index by time names them: ``20261121T060000000Z_00000042_instant``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from airflow_kafka_offsets.errors import InstantError
from airflow_kafka_offsets.offsets.instants import compact_instant, parse_instant
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot

FORGET = "forget"
_MARKER = re.compile(rf"(\d{{8}}T\d{{9}}Z)_(\d{{8}})_({'|'.join([*AsOfKind, FORGET])})(?:-([0-9a-z]+))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One entry of the log.

    :param timestamp_ms: its place in time, Unix milliseconds.
    :param number: its place in the log.
    :param kind: what it is as of, an :class:`AsOfKind`; or ``forget``, when it forgets an earlier one of that time.
    :param about: whose increment it ends, or which number it forgets; empty for another kind.
    """

    timestamp_ms: int
    number: int
    kind: str
    about: str = ""

    @property
    def marker(self) -> str:
        """Its name in the index."""
        about = f"-{self.about}" if self.about else ""
        return f"{compact_instant(self.timestamp_ms)}_{self.number:08d}_{self.kind}{about}"

    @property
    def month(self) -> str:
        """Its folder in the index."""
        return compact_instant(self.timestamp_ms)[:6]

    @property
    def once(self) -> int | str | None:
        """Of what there is one snapshot only: its instant, or its run; None when there may be several."""
        return self.timestamp_ms if self.kind == AsOfKind.INSTANT else self.about or None

    @property
    def chained(self) -> bool:
        """Whether it is a snapshot of the chain, which never runs backwards."""
        return self.kind != FORGET and AsOfKind(self.kind).chained

    @classmethod
    def of(cls, snapshot: OffsetSnapshot) -> Self:
        """The entry of a numbered snapshot."""
        assert snapshot.number is not None
        return cls(snapshot.timestamp_ms, snapshot.number, snapshot.as_of.kind, snapshot.as_of.run or "")

    @classmethod
    def of_marker(cls, name: str) -> Self | None:
        """The entry that a marker names; None for another name."""
        match = _MARKER.fullmatch(name)
        if match is None:
            return None
        try:
            return cls(parse_instant(match[1]), int(match[2]), match[3], match[4] or "")
        except InstantError:  # some digits are none
            return None

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any] | None) -> Self | None:
        """The entry that a file of the log holds; None when there is no file."""
        if fields is None:
            return None
        if "forgets_ms" in fields:
            return cls(fields["forgets_ms"], fields["number"], FORGET, str(fields["forgets"]))
        as_of = AsOf.from_json(fields["as_of"])
        timestamp_ms = fields["resolved_at_ms"] if as_of.timestamp_ms is None else as_of.timestamp_ms
        return cls(timestamp_ms, fields["number"], as_of.kind, as_of.run or "")


def last_forgotten(entries: Iterable[Entry]) -> dict[int, int]:
    """Numbers of the snapshots at instants that were forgotten last, by their instants."""
    ordered = sorted(entries)
    forgotten = forgotten_numbers(ordered)
    return {
        entry.timestamp_ms: entry.number
        for entry in ordered
        if entry.kind == AsOfKind.INSTANT and entry.number in forgotten
    }


def forgotten_numbers(entries: Iterable[Entry]) -> set[int]:
    """Numbers of the snapshots that some entries forget."""
    return {int(entry.about) for entry in entries if entry.kind == FORGET}


def live(entries: Iterable[Entry]) -> list[Entry]:
    """The snapshots that count, in order of time: neither forgotten nor what forgets."""
    ordered = sorted(entries)
    forgotten = forgotten_numbers(ordered)
    return [entry for entry in ordered if entry.kind != FORGET and entry.number not in forgotten]
