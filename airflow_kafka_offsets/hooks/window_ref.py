"""The reference to a pinned window: the small plain JSON that one task hands to the next through XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.hooks.ledger import open_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest

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
    """

    ledger_root: str
    pipeline: str
    window: str
    manifest: str
    sha256: str
    offsets: int
    partitions: int

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

    def ledger(self) -> Ledger:
        """The ledger that the window is in."""
        return open_ledger(self.ledger_root, self.pipeline)

    def read(self, ledger: Ledger) -> PinnedManifest:
        """The pinned manifest.

        :raises LedgerCorruptError: when it is missing or was changed.
        :raises LedgerConflictError: when it is another one than this reference was made for.
        """
        pinned = ledger.pinned(self.window)
        if pinned.sha256 != self.sha256:
            raise LedgerConflictError(
                f"The manifest of window {self.window} has hash {pinned.sha256}; this run resolved {self.sha256}. "
                "Clear the resolve task too."
            )
        return pinned
