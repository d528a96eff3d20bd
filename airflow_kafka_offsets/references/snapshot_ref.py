"""The reference to a stored snapshot: small, plain JSON that one task passes to the next through XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.hooks.ledger import ledger_at
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.references.window_ref import WindowRef

VERSION = 1


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """Identifies a stored snapshot, by the hash of its offsets.

    :param ledger: the ledger's URI.
    :param snapshot: hash of the file with its offsets.
    :param at_ms: its place in time, Unix milliseconds, where a window can start or end; None for a snapshot as of
        earliest or a group's commits, which is a target only.
    :param as_of: the snapshot's moment, for people.
    :param resolved_at: when it was resolved, in ISO-8601.
    :param partitions: number of its partitions.
    """

    ledger: str
    snapshot: str
    at_ms: int | None
    as_of: str
    resolved_at: str
    partitions: int

    @classmethod
    def of(cls, ledger: Ledger, offsets: str, at_ms: int | None) -> Self:
        """The reference to a snapshot that has just been stored.

        :param offsets: hash of the file with its offsets.
        :param at_ms: its place in time, if the log has it.
        """
        snapshot = ledger.contents.snapshot(offsets)
        resolved_at, partitions = iso_instant(snapshot.resolved_at_ms), len(snapshot.boundaries)
        return cls(ledger.uri, offsets, at_ms, str(snapshot.as_of), resolved_at, partitions)

    def to_json(self) -> dict[str, Any]:
        """The XCom."""
        return {"version": VERSION} | asdict(self)

    @classmethod
    def from_json(cls, fields: Any) -> Self | None:
        """Read the XCom of another task; None when it is something else, which every caller takes too or names."""
        if not isinstance(fields, Mapping) or not fields.keys() >= set(cls.__slots__):
            return None
        if fields.get("version") != VERSION:
            return None
        return cls(**{name: fields[name] for name in cls.__slots__})

    def read(self, ledger: Ledger) -> OffsetSnapshot:
        """The stored snapshot.

        :param ledger: the ledger at this reference's URI.
        :raises LedgerCorruptError: when its file is missing or was changed.
        :raises LedgerConflictError: when the ledger was rewound to before it, or re-created.
        """
        if self.at_ms is not None:
            stored = ledger.state.snapshots.get(self.at_ms)
            if stored is None or stored.offsets != self.snapshot:
                raise LedgerConflictError(
                    f"The snapshot as of {self.as_of}, resolved at {self.resolved_at}, no longer counts in "
                    f"{ledger.uri}: the ledger was rewound to before it, or re-created. Clear the task that stored it, "
                    "and this one."
                )
        return ledger.contents.snapshot(self.snapshot)


def offsets_in(xcom: Any, argument: str) -> FixedOffsets:
    """The offsets of a stored snapshot, or of a window's end.

    :param xcom: what ``KafkaOffsetSnapshotOperator`` or ``KafkaResolveWindowOperator`` returned.
    :param argument: the argument's name, for the message.
    :raises ConfigurationError: when it is something else.
    :raises LedgerError: when the snapshot or window isn't in its ledger, or no longer counts.
    """
    snapshot = SnapshotRef.from_json(xcom)
    if snapshot is not None:
        ledger = ledger_at(snapshot.ledger)
        return FixedOffsets.of_snapshot(snapshot.read(ledger), ledger.uri)
    if isinstance(xcom, Mapping) and "window" in xcom:
        window = WindowRef.from_json(xcom, argument)
        ledger = window.ledger()
        return FixedOffsets.of_window_end(ledger.pinned(window.window_in(ledger)).manifest, ledger.uri)
    raise ConfigurationError(
        f"{argument}= takes what KafkaOffsetSnapshotOperator or KafkaResolveWindowOperator returned (its .output), "
        f"not {xcom!r}. Was that task skipped, or its XCom cleared?"
    )


def last_published_end(ledger: Ledger) -> FixedOffsets:
    """Where a pipeline's last published window ends; when none is published, where the pipeline begins; without any
    offsets when that isn't known either. Logs that have begun anew since then go on from there."""
    last = next((window for window in reversed(ledger.state.windows.values()) if window.publication is not None), None)
    if last is not None:
        end = FixedOffsets.of_snapshot(ledger.offsets_now(last.end_ms), ledger.uri)
        return replace(end, source=f"the end of window {last.name}")
    origin = next((stored for stored in ledger.state.snapshots.values() if stored.is_origin), None)
    if origin is not None:
        return FixedOffsets.of_snapshot(ledger.offsets_now(origin.at_ms), ledger.uri)
    return FixedOffsets("the log starts, as nothing is published", ledger=ledger.uri)
