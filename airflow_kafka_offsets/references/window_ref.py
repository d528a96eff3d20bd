"""The reference to a pinned window: small, plain JSON that one task passes to the next through XCom."""

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
    """Identifies a pinned window, with its totals. Never holds the offsets themselves.

    :param ledger_root: folder of all ledgers.
    :param pipeline: the pipeline's name.
    :param window: the window's name.
    :param manifest: the manifest's URI.
    :param sha256: the manifest's hash, in hex.
    :param offsets: number of offsets in the window: the exact number of its records if the topics are neither compacted
        nor transactional, else an upper bound.
    :param partitions: number of partitions with at least one of these offsets.
    :param revision: the window's revision.
    :param lost: number of offsets that were already deleted when the window was pinned with ``load_rest``.
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
    def from_json(cls, fields: Mapping[str, Any] | None, argument: str = "window") -> Self:
        """Read the XCom of another task.

        :param argument: name of the argument that was given it, for the message.
        :raises ConfigurationError: when it is something else.
        """
        try:
            if fields is not None and fields["version"] == VERSION:
                return cls(**{name: fields[name] for name in cls.__slots__})
        except (KeyError, TypeError):
            pass
        raise ConfigurationError(
            f"{argument}= takes what KafkaResolveWindowOperator returned (its .output), not {fields!r}."
        ) from None

    def is_same_window(self, other: WindowRef) -> bool:
        """Whether both name the same window of the same pipeline, in any revision."""
        return (self.ledger_root, self.pipeline, self.window) == (other.ledger_root, other.pipeline, other.window)

    def take_back(self) -> str:
        """How the user takes back a window that should not have been published."""
        return (
            f"It stays published until you take it back with kafka-offsets ledger forget {self.pipeline} "
            f"{self.window} --force; then clear the run, which resolves and loads it again."
        )

    def ledger(self) -> Ledger:
        """The ledger that the window is in."""
        return existing_ledger(self.ledger_root, self.pipeline)

    def read(self, ledger: Ledger) -> PinnedManifest:
        """The pinned manifest.

        :raises LedgerCorruptError: when it is missing or was changed.
        :raises LedgerConflictError: when it was forgotten, or isn't the one that this reference was made for.
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
        """The published revision, if it is this one, a newer one, or an older one that covers this one; and its
        publication. Otherwise this revision, and None. The window's revisions are listed once.

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
        # Made from the same snapshots, this revision is what retention left of the earlier one: a part of it.
        return (pinned, published) if pinned.manifest.snapshots == own.manifest.snapshots else (own, None)

    def published(self, ledger: Ledger) -> tuple[PinnedManifest, Publication]:
        """The window's published revision, and its publication.

        :raises UnprovenError: when none is published.
        :raises LedgerConflictError: as :meth:`read`.
        """
        pinned, published = self.loaded(ledger)
        if published is None:
            raise self.unpublished()
        return pinned, published

    def unpublished(self) -> UnprovenError:
        """The error for a window that isn't published."""
        return UnprovenError(f"Window {self.window} was never published: run its load first.")
