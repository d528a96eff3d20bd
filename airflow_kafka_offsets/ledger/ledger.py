"""The ledger: a folder on object storage with one pipeline's snapshots and windows.

Layout, all of it created and never changed::

    <root>/<pipeline>/
      pipeline.json                 topics, cluster id, isolation level, format version
      snapshots/00000042.json       the log of snapshots
      instants/…                    index of the log
      windows/<start>_<end>/        a window: manifest, attempts, results, committed, verified
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError, LedgerError, TopicChangedError
from airflow_kafka_offsets.ledger.snapshot_log import SnapshotLog
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, names, read_json, to_json_bytes
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows import is_window_id, window_between

FORMAT = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Ledger:
    """One pipeline's ledger.

    :param root: folder of all ledgers; any path with UPath's interface, such as Airflow's ``ObjectStoragePath``.
    :param pipeline: the pipeline's name: letters, digits, dot, underscore and hyphen.
    """

    def __init__(self, root: StoragePath, pipeline: str) -> None:
        if not _NAME.fullmatch(pipeline):
            raise ConfigurationError(
                f"A pipeline's name has letters, digits, '.', '_' and '-' only, as it names a folder; not {pipeline!r}."
            )
        self.pipeline = pipeline
        self._folder = root / pipeline
        self.snapshots = SnapshotLog(self._folder)

    @property
    def uri(self) -> str:
        """Where it is."""
        return str(self._folder)

    def open(self, topics: Iterable[str], cluster_id: str, isolation_level: IsolationLevel) -> None:
        """Create the pipeline, or check that it is the same one.

        Topics may be added; a new topic starts like a new partition.

        :raises TopicChangedError: when the ledger was written by another cluster.
        :raises ConfigurationError: when a topic was dropped or the isolation level differs.
        :raises LedgerError: when its format is newer than this version reads.
        """
        wanted = {
            "format": FORMAT,
            "pipeline": self.pipeline,
            "topics": sorted(set(topics)),
            "cluster_id": cluster_id,
            "isolation_level": str(isolation_level),
        }
        path = self._folder / "pipeline.json"
        if read_json(path) is None and create_exclusive(path, to_json_bytes(wanted)):
            return
        self._check(read_json(path) or {}, wanted)

    def _check(self, stored: dict[str, object], wanted: dict[str, object]) -> None:
        where = f"The ledger {self.uri}"
        if stored.get("format") != FORMAT:
            raise LedgerError(f"{where} has format {stored.get('format')!r}; this version reads and writes {FORMAT}.")
        if stored["cluster_id"] != wanted["cluster_id"]:
            raise TopicChangedError(
                f"{where} was written by cluster {stored['cluster_id']}, but the connection reaches "
                f"{wanted['cluster_id']}. Use the right connection, or another pipeline name for this cluster."
            )
        if stored["isolation_level"] != wanted["isolation_level"]:
            raise ConfigurationError(
                f"{where} is {stored['isolation_level']}; {wanted['isolation_level']} needs a pipeline of its own."
            )
        dropped = set(stored["topics"]) - set(wanted["topics"])  # type: ignore[call-overload]  # both are lists
        if dropped:
            raise ConfigurationError(f"{where} covers {', '.join(sorted(dropped))} too: name every topic of it.")

    def exists(self) -> bool:
        """Whether the pipeline was ever opened."""
        return read_json(self._folder / "pipeline.json") is not None

    def window(self, window_id: str) -> WindowFolder:
        """One window's folder; it need not exist."""
        return WindowFolder(self._folder / "windows" / window_id)

    def windows(self) -> list[WindowFolder]:
        """All windows, in order of their start."""
        return [self.window(name) for name in names(self._folder / "windows") if is_window_id(name)]

    def pin_window(self, start: OffsetSnapshot, end: OffsetSnapshot) -> PinnedManifest:
        """Pin the window between two stored snapshots, or return it as it was pinned before.

        :raises IntervalError: when the end isn't after the start.
        :raises LedgerCorruptError: when the stored manifest was changed.
        """
        window = window_between(start, end)
        return self.window(window.id).pin(Manifest.of(self.pipeline, window))

    def pinned(self, window_id: str) -> PinnedManifest:
        """A window's stored manifest.

        :raises LedgerCorruptError: when there is none, or it was changed.
        """
        pinned = self.window(window_id).pinned()
        if pinned is None:
            raise LedgerCorruptError(f"{self.uri} has no window {window_id}: resolve it first.")
        return pinned
