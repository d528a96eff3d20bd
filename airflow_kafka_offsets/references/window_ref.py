"""The reference to a pinned window: the small plain JSON that one task hands to the next through XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, UnprovenError
from airflow_kafka_offsets.hooks.ledger import existing_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.proof.publication import Publication

VERSION = 1
_ADDED = ("revision", "lost")
"""Fields that references of earlier versions don't have."""


@dataclass(frozen=True, slots=True)
class WindowRef:
    """Where a pinned window is, and its totals. Never the offsets themselves.

    :param ledger_root: folder of all ledgers.
    :param pipeline: the pipeline's name.
    :param window: the window's name.
    :param manifest: the manifest's URI.
    :param sha256: the manifest's hash, in hex.
    :param offsets: offsets in the window: exactly its records on plain topics, an upper bound otherwise.
    :param partitions: partitions with at least one of them.
    :param revision: which revision of the window.
    :param lost: offsets of the window that were gone when it was pinned, by the user's choice not to fail.
    """

    ledger_root: str
    pipeline: str
    window: str
    manifest: str
    sha256: str
    offsets: int
    partitions: int
    revision: int = 1
    lost: int = 0

    @classmethod
    def of(cls, ledger_root: str, pinned: PinnedManifest) -> Self:
        """The reference to a window that has just been pinned."""
        manifest = pinned.manifest
        return cls(
            ledger_root=ledger_root,
            pipeline=manifest.pipeline,
            window=manifest.window,
            manifest=pinned.uri,
            sha256=pinned.sha256,
            offsets=manifest.span,
            partitions=len(manifest.non_empty()),
            revision=manifest.revision,
            lost=manifest.lost_offsets,
        )

    def to_json(self) -> dict[str, Any]:
        """The XCom."""
        return {"version": VERSION} | asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any] | None) -> Self:
        """Read the XCom of another task.

        :raises ConfigurationError: when it is something else.
        """
        try:
            if fields is not None and fields["version"] == VERSION:
                return cls(**{name: fields[name] for name in cls.__slots__ if name in fields or name not in _ADDED})
        except (KeyError, TypeError):
            pass
        raise ConfigurationError(
            f"window= takes what KafkaResolveWindowOperator returned (its .output), not {fields!r}."
        ) from None

    def is_same_window(self, other: WindowRef) -> bool:
        """Whether both are of one window of one pipeline, in any revision."""
        return (self.ledger_root, self.pipeline, self.window) == (other.ledger_root, other.pipeline, other.window)

    def take_back(self) -> str:
        """What to do about a window that should not have been published, for people."""
        return (
            f"It stays published until you take it back: kafka-offsets ledger forget {self.pipeline} "
            f"{self.window} --force; then clear the run, which resolves and loads it again."
        )

    def ledger(self) -> Ledger:
        """The ledger that the window is in."""
        return existing_ledger(self.ledger_root, self.pipeline)

    def read(self, ledger: Ledger) -> PinnedManifest:
        """The pinned manifest.

        :raises LedgerCorruptError: when it is missing or was changed.
        :raises LedgerConflictError: when it was forgotten, or is another one than this reference was made for.
        """
        pinned = ledger.pinned(self.window, self.revision)
        if pinned.sha256 != self.sha256:
            raise LedgerConflictError(
                f"The manifest of window {self.window} has hash {pinned.sha256}; this run resolved {self.sha256}. "
                "Clear the resolve task too."
            )
        if self.revision not in [folder.revision for folder in ledger.window_folders.live(self.window)]:
            raise LedgerConflictError(
                f"Revision {self.revision} of window {self.window} has been forgotten since this run "
                "resolved it. Clear the resolve task too."
            )
        return pinned

    def loaded(self, ledger: Ledger) -> tuple[PinnedManifest, Publication | None]:
        """What a load is about: the published revision and what it published; or this one, and None.

        :raises LedgerConflictError: as :meth:`read`.
        """
        try:
            folder, pinned = self.published(ledger)
            return pinned, folder.publication()
        except UnprovenError:
            return self.read(ledger), None

    def published(self, ledger: Ledger) -> tuple[WindowFolder, PinnedManifest]:
        """The window's published revision: this one, one that replaced it, or one that it would be a part of.

        :raises UnprovenError: when neither is.
        :raises LedgerConflictError: as :meth:`read`.
        """
        folder = ledger.window_folders.published(self.window)
        if folder is None or (folder.revision < self.revision and not self._is_part_of(folder, ledger)):
            raise UnprovenError(f"Window {self.window} was never published: run its load first.")
        if folder.revision == self.revision:
            return folder, self.read(ledger)
        return folder, ledger.pinned(folder.id, folder.revision)

    def _is_part_of(self, folder: WindowFolder, ledger: Ledger) -> bool:
        """Whether this revision is what was left of an earlier one."""
        earlier = ledger.pinned(folder.id, folder.revision).manifest
        return earlier.snapshots == self.read(ledger).manifest.snapshots
