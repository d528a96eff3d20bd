"""The reference to a stored snapshot: small, plain JSON that one task passes to the next through XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
    """Identifies a stored snapshot. Its number alone doesn't: in a re-created ledger, it names another snapshot.

    :param ledger: the ledger's URI.
    :param ledger_id: the ledger's identity.
    :param snapshot: the snapshot's number in the ledger.
    :param as_of: the snapshot's moment, for people.
    :param resolved_at: when it was resolved, in ISO-8601.
    :param partitions: number of its partitions.
    """

    ledger: str
    ledger_id: str
    snapshot: int
    as_of: str
    resolved_at: str
    partitions: int

    @classmethod
    def of(cls, ledger: Ledger, snapshot: OffsetSnapshot) -> Self:
        """The reference to a snapshot that has just been stored."""
        assert snapshot.number is not None
        resolved_at, partitions = iso_instant(snapshot.resolved_at_ms), len(snapshot.boundaries)
        return cls(ledger.uri, ledger.id, snapshot.number, str(snapshot.as_of), resolved_at, partitions)

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
        :raises LedgerCorruptError: when the snapshot is missing.
        :raises LedgerConflictError: when it was forgotten, or isn't the one that this reference was made for.
        """
        again = "Clear the task that stored it, and this one."
        if ledger.id != self.ledger_id:
            raise LedgerConflictError(
                f"Snapshot {self.snapshot} as of {self.as_of} belongs to another ledger than the one at "
                f"{ledger.uri} now, which has been re-created since. {again}"
            )
        snapshot = ledger.snapshots.read(self.snapshot)
        if SnapshotRef.of(ledger, snapshot) != self:
            raise LedgerConflictError(
                f"Snapshot {self.snapshot} as of {self.as_of}, resolved at {self.resolved_at}, isn't the one that "
                f"{ledger.uri} has under that number now: as of {snapshot.as_of}, resolved at "
                f"{iso_instant(snapshot.resolved_at_ms)}. {again}"
            )
        ledger.snapshots.require_live([snapshot], again)
        return snapshot


def offsets_in(xcom: Any, argument: str) -> FixedOffsets:
    """The offsets of a stored snapshot, or of a window's end.

    :param xcom: what ``KafkaOffsetSnapshotOperator`` or ``KafkaResolveWindowOperator`` returned.
    :param argument: the argument's name, for the message.
    :raises ConfigurationError: when it is something else.
    :raises LedgerError: when the snapshot or window isn't in its ledger, or was forgotten.
    """
    snapshot = SnapshotRef.from_json(xcom)
    if snapshot is not None:
        ledger = ledger_at(snapshot.ledger)
        return FixedOffsets.of_snapshot(snapshot.read(ledger), ledger.uri)
    if isinstance(xcom, Mapping) and "window" in xcom:
        window = WindowRef.from_json(xcom, argument)
        ledger = window.ledger()
        return FixedOffsets.of_window_end(window.read(ledger).manifest, ledger.uri)
    raise ConfigurationError(
        f"{argument}= takes what KafkaOffsetSnapshotOperator or KafkaResolveWindowOperator returned (its .output), "
        f"not {xcom!r}. Was that task skipped, or its XCom cleared?"
    )


def last_published_end(ledger: Ledger) -> FixedOffsets:
    """Where a pipeline's last published window ends; when none is published, where its first increment starts; without
    any offsets when there is none of either."""
    last = ledger.last_published()
    if last is not None:
        return FixedOffsets.of_window_end(last, ledger.uri)
    start = ledger.snapshots.first_increment_start()
    if start is not None:
        return FixedOffsets.of_snapshot(start, ledger.uri)
    return FixedOffsets("the log starts, as nothing is published", ledger=ledger.uri)
