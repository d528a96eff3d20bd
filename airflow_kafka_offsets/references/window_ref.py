"""The reference to a pinned window: the small plain JSON that one task hands to the next through XCom."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, UnprovenError
from airflow_kafka_offsets.hooks.ledger import existing_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.publication import Publication

VERSION = 1


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
    revision: int
    lost: int

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
                return cls(**{name: fields[name] for name in cls.__slots__})
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
        return self._read(ledger, ledger.window_folders.live_numbers(self.window))

    def _read(self, ledger: Ledger, live: Collection[int]) -> PinnedManifest:
        pinned = ledger.pinned(self.window, self.revision)
        if pinned.sha256 != self.sha256:
            raise LedgerConflictError(
                f"The manifest of window {self.window} has hash {pinned.sha256}; this run resolved {self.sha256}. "
                "Clear the resolve task too."
            )
        if self.revision not in live:
            raise LedgerConflictError(
                f"Revision {self.revision} of window {self.window} has been forgotten since this run "
                "resolved it. Clear the resolve task too."
            )
        return pinned

    def loaded(self, ledger: Ledger) -> tuple[PinnedManifest, Publication | None]:
        """What a load is about: the published revision, which is this one, one that replaced it, or one that it would
        be a part of, and what it published; or this one, and None. Of one look at the window's revisions.

        :raises LedgerConflictError: as :meth:`read`.
        """
        live = ledger.window_folders.live_numbers(self.window)
        published = ledger.window_folders.publication(self.window, live)
        if published is None or published.revision == self.revision:
            return self._read(ledger, live), published
        pinned = ledger.pinned(self.window, published.revision)
        if published.revision > self.revision:
            return pinned, published
        own = self._read(ledger, live)
        # What was left of an earlier revision is a part of it.
        return (pinned, published) if pinned.manifest.snapshots == own.manifest.snapshots else (own, None)

    def published(self, ledger: Ledger) -> tuple[PinnedManifest, Publication]:
        """The window's published revision, and what it published.

        :raises UnprovenError: when none is.
        :raises LedgerConflictError: as :meth:`read`.
        """
        pinned, published = self.loaded(ledger)
        if published is None:
            raise self.unpublished()
        return pinned, published

    def unpublished(self) -> UnprovenError:
        """The error of a window that nobody has published."""
        return UnprovenError(f"Window {self.window} was never published: run its load first.")
