"""The plain Hive-style path: published rows in ``<path>/window=<window>/``, for readers that know of no ledger.

A folder that comes there is renamed in one step, and says in a hidden file of which attempt it is. What a newer
revision takes the place of is put aside under a name of its own and deleted then; where a crash or a run beside this
one left the place empty, a rerun finds the rows there.

A path has one ledger, which a hidden file at its root names by its identity: the first load creates it, exclusively.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self
from uuid import uuid4

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.ledger_identity import LedgerIdentity, json_object
from airflow_kafka_offsets.spark.hadoop import HadoopFiles
from airflow_kafka_offsets.spark.sink import WINDOW_COLUMN, Attempt

_LABEL = "_published"
"""File beside the rows. Spark, Hive and Trino skip names that begin so."""
_OWNER = "_kafka_offsets_ledger.json"
"""File at the root that says whose the path is."""
_ASIDE = ".replaced"
_TRIES = 4
"""Runs of several revisions may move at once; each round settles one of them."""


@dataclass(frozen=True, slots=True)
class Label:
    """Whose rows a folder holds.

    :param ledger_id: the window's ledger.
    :param pipeline: its pipeline's name, for people.
    :param revision: of the window.
    :param attempt: that wrote them.
    """

    ledger_id: str
    pipeline: str
    revision: int
    attempt: str

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        return cls(attempt.ledger_id, attempt.pipeline, attempt.revision, attempt.name)

    def stays(self, ours: Label) -> bool:
        """Whether these rows are ours already, or a newer revision's. Those of a ledger that the path was taken over
        from give way."""
        return self.ledger_id == ours.ledger_id and (self == ours or self.revision > ours.revision)


class HivePath:
    """Folders ``window=<window>`` below one path, all of one ledger.

    :param files: where they are; the store must rename a folder in one step.
    :param root: the path.
    """

    def __init__(self, files: HadoopFiles, root: str) -> None:
        self._files = files
        self._root = root

    def claim(self, attempt: Attempt) -> None:
        """Make a path of nobody's this ledger's, and refuse another one's: asked before a run reads anything.

        :raises LedgerConflictError: as :meth:`require_ours`, or somebody else's folder is at the window's place.
        """
        place = f"{self._root}/{_OWNER}"
        if self._files.read(place) is None:
            self._files.create_exclusive(place, attempt.ledger.to_bytes())
        self.require_ours(attempt)
        self._standing(plain_folder(self._root, attempt.window))

    def require_ours(self, attempt: Attempt) -> None:
        """Refuse a path of another ledger, or of none. Nothing is changed: it may just have been handed over.

        :raises LedgerConflictError: naming both, and how a path is handed over.
        """
        place, ours = f"{self._root}/{_OWNER}", attempt.ledger
        owner = LedgerIdentity.of(json_object(self._files.read(place)))
        if owner is None or owner.ledger_id != ours.ledger_id:
            raise LedgerConflictError(
                f"{self._root} is a path of {owner or 'no ledger'}, by its file {_OWNER}, and this is {ours}: each "
                "would take the place of the other's windows. A path has one ledger: use another path. Where the "
                "ledger was moved, copy its whole folder, pipeline.json included, as its identity is in there. Where "
                f"the other one is lost for good, hand the path over: write {ours.to_bytes().decode()} to {place}; "
                "windows that are loaded again then take the place of its rows."
            )

    def label(self, folder: str, attempt: Attempt) -> None:
        """Say in a folder whose rows it holds, before it is moved."""
        self._files.write(f"{folder}/{_LABEL}", json.dumps(asdict(Label.of(attempt))).encode())

    def settle(self, rows: str | None, attempt: Attempt) -> None:
        """Move an attempt's rows to the window's place, whatever an earlier call has done of it.

        :param rows: the folder that they were written to; None for a window without rows: an empty folder takes its
            place.
        :raises LedgerConflictError: as :meth:`claim`, and when a copy of this ledger has loaded the window.
        :raises LedgerCorruptError: the rows are nowhere.
        """
        self.require_ours(attempt)
        place, ours = plain_folder(self._root, attempt.window), Label.of(attempt)
        for _ in range(_TRIES):
            self._restore(place, ours)
            standing = self._standing(place)
            if standing is not None:
                _refuse_unknown(place, standing, ours)
            if standing is not None and standing.stays(ours):
                return self._clear(place, standing)
            if standing is not None:
                self._put_aside(place, ours)
            self._files.rename(rows or self._nothing(place, attempt), place)
        raise LedgerCorruptError(
            f"The published rows of window {attempt.window} are neither at {rows} nor at {place}: restore them, or "
            "forget the window and load it again."
        )

    def _put_aside(self, place: str, ours: Label) -> None:
        """Make room; a run beside this one may have put there just now what stays, and that goes back."""
        aside = f"{self._asides(place)}/{uuid4().hex}"
        self._files.rename(place, aside)
        self._restore(place, ours)

    def _restore(self, place: str, ours: Label) -> None:
        """Bring back the newest folder that was put aside and should have stayed."""
        found = [(label.revision, folder) for folder, label in self._aside(place) if label and label.stays(ours)]
        if found:
            self._files.rename(max(found)[1], place)

    def _clear(self, place: str, standing: Label) -> None:
        """Delete what the standing rows have taken the place of."""
        for folder, label in self._aside(place):
            if label is None or not label.stays(standing):
                self._files.delete(folder)

    def _nothing(self, place: str, attempt: Attempt) -> str:
        """A folder without rows."""
        folder = f"{self._asides(place)}/{uuid4().hex}"
        self.label(folder, attempt)
        return folder

    def _aside(self, place: str) -> list[tuple[str, Label | None]]:
        """Folders that were put aside, and whose; None for one that was being made or deleted."""
        folders = [f"{self._asides(place)}/{name}" for name in self._files.names(self._asides(place))]
        return [(folder, _label(self._files.read(f"{folder}/{_LABEL}"))) for folder in folders]

    def _asides(self, place: str) -> str:
        return f"{self._root}/{_ASIDE}/{place.rpartition('/')[2]}"

    def _standing(self, place: str) -> Label | None:
        """Which rows are at a window's place; None when there is no such folder.

        :raises LedgerConflictError: when it holds what no load has moved there.
        """
        label = _label(self._files.read(f"{place}/{_LABEL}"))
        if label is None and self._files.exists(place):
            raise LedgerConflictError(
                f"{place} holds files that no load has moved there: remove them, or use another path."
            )
        return label


def _refuse_unknown(place: str, standing: Label, ours: Label) -> None:
    """Never take the place of rows that this ledger hasn't published, though they carry its identity: of a revision one
    attempt is published.

    :raises LedgerConflictError: naming who wrote them.
    """
    same = (standing.ledger_id, standing.revision) == (ours.ledger_id, ours.revision)
    if same and standing.attempt != ours.attempt:
        raise LedgerConflictError(
            f"{place} holds rows of attempt {standing.attempt}, and this ledger has published {ours.attempt}: there is "
            "a copy of the ledger, and the copy has loaded them. Use one of the two with this path."
        )


def plain_folder(root: str, window: str) -> str:
    """Where a window's rows are for everybody."""
    return f"{root}/{WINDOW_COLUMN}={window}"


def _label(content: bytes | None) -> Label | None:
    try:
        return Label(**json_object(content))
    except TypeError:
        return None
