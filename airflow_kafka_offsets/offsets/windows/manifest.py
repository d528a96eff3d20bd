"""The manifest: a window written out as exact ranges per partition. It is all that a Spark run is given.

Its bytes are canonical JSON (sorted keys, no spaces), so the same window always has the same sha256. It contains
nothing that differs between two runs of the same window.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import LEDGER_ID, PIPELINE_NAME, is_window, window_id
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange, ranges_between
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, Evidence, OffsetSnapshot

FORMAT = 3

_COLUMNS = tuple(name for name in OffsetRange.__slots__ if name != "topic")
_USUAL = {"start_leader_epoch": None, "end_leader_epoch": None}
"""Columns that are left out when every row has this value."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A window's exact ranges.

    :param pipeline: its pipeline's name, for people: other ledgers may have pipelines of the same name.
    :param ledger_id: identity of the ledger that it was pinned in.
    :param window: the window's name, from its two instants.
    :param start_ms: start instant, Unix milliseconds, inclusive.
    :param end_ms: end instant, Unix milliseconds, exclusive.
    :param cluster_id: the cluster that the offsets belong to.
    :param isolation_level: which records counted as visible; the reader must use the same (S9).
    :param topics: facts by topic name, as of the end snapshot.
    :param ranges: one for each partition, in order, empty ones included.
    :param timed: whether both snapshots are as of instants, so that a record's timestamp lies inside or outside.
    """

    pipeline: str
    ledger_id: str
    window: str
    start_ms: int
    end_ms: int
    cluster_id: str
    isolation_level: IsolationLevel
    topics: Mapping[str, TopicFacts]
    ranges: tuple[OffsetRange, ...]
    timed: bool = True

    @property
    def title(self) -> str:
        return f"window {self.window}"

    @property
    def span(self) -> int:
        """Offsets in all ranges: exactly the number of records on plain topics, an upper bound otherwise."""
        return sum(each.span for each in self.ranges)

    def non_empty(self) -> tuple[OffsetRange, ...]:
        """The ranges with at least one offset: what Spark is asked to read (S6)."""
        return tuple(each for each in self.ranges if each.span)

    @classmethod
    def of(cls, pipeline: str, ledger_id: str, start: OffsetSnapshot, end: OffsetSnapshot) -> Self:
        """The manifest of a window between two stored snapshots. Raises as :func:`.ranges_between`."""
        return cls(
            pipeline=pipeline,
            ledger_id=ledger_id,
            window=window_id(start.timestamp_ms, end.timestamp_ms),
            start_ms=start.timestamp_ms,
            end_ms=end.timestamp_ms,
            cluster_id=end.cluster_id,
            isolation_level=end.isolation_level,
            topics=end.topics,
            ranges=ranges_between(start, end),
            timed=start.as_of.kind is end.as_of.kind is AsOfKind.INSTANT,
        )

    def to_bytes(self) -> bytes:
        """Canonical JSON: the bytes that are hashed."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("topics", "ranges")}
        if fields["timed"]:
            del fields["timed"]
        topics = {topic: facts.to_json() | self._columns(topic) for topic, facts in self.topics.items()}
        return json.dumps({"format": FORMAT, "topics": topics} | fields, sort_keys=True, separators=(",", ":")).encode()

    def _columns(self, topic: str) -> dict[str, list[Any]]:
        rows = [each for each in self.ranges if each.topic == topic]
        columns = {name: [getattr(row, name) for row in rows] for name in _COLUMNS}
        for name, usual in _USUAL.items():
            if all(value == usual for value in columns[name]):
                del columns[name]
        return columns

    @property
    def sha256(self) -> str:
        return digest(self.to_bytes())

    @classmethod
    def from_bytes(cls, content: bytes, sha256: str | None = None) -> Self:
        """Read a manifest.

        :param sha256: the digest that the content must have; None to skip the check.
        :raises LedgerCorruptError: when the content was changed, is cut short, or isn't a manifest of a known format.
        """
        if sha256 is not None and digest(content) != sha256:
            raise LedgerCorruptError(
                f"The manifest was changed after it was pinned: its sha256 is {digest(content)}, expected {sha256}. "
                "Nothing was read. Restore the file as it was."
            )
        try:
            fields = json.loads(content)
            if fields["format"] != FORMAT:
                raise LedgerCorruptError(f"This manifest has an unknown format; this version reads format {FORMAT}.")
            _check_names(fields)
            columns = fields.pop("topics")
            del fields["format"]
            fields["isolation_level"] = IsolationLevel(fields["isolation_level"])
            rows = (row for topic in sorted(columns) for row in _ranges(topic, columns[topic]))
            topics = {topic: TopicFacts.from_json(topic, facts) for topic, facts in columns.items()}
            return cls(**fields, topics=topics, ranges=tuple(rows))
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not a manifest: {error!r}.") from error


def _check_names(fields: Mapping[str, Any]) -> None:
    """Check the names, which become folders and parts of SQL and table properties, so that the file can't inject
    anything by them."""
    forms: dict[str, Callable[[str], object]]
    forms = {"pipeline": PIPELINE_NAME.fullmatch, "ledger_id": LEDGER_ID.fullmatch, "window": is_window}
    for name, has_form in forms.items():
        if not has_form(fields[name]):
            raise ValueError(f"{name} {fields[name]!r}")


def digest(content: bytes) -> str:
    """Sha256 of some content, in hex."""
    return hashlib.sha256(content).hexdigest()


def _ranges(topic: str, columns: Mapping[str, Any]) -> list[OffsetRange]:
    present = [name for name in _COLUMNS if name in columns or name not in _USUAL]
    rows = (dict(zip(present, row, strict=True)) for row in zip(*(columns[name] for name in present), strict=True))
    return [
        OffsetRange(topic=topic, **row | {name: Evidence(row[name]) for name in ("start_evidence", "end_evidence")})
        for row in rows
    ]
