"""The ledger: a folder on object storage with one pipeline's snapshots and windows.

Airflow's side creates files exclusively, and never changes them. The exceptions: the lists in ``files/``, which are
derived and rewritten; and a marker in ``instants/`` is deleted if another entry took its number. A Spark driver creates
or replaces only files named after its own attempt: its note in ``applications/``, which it may rewrite, and its result
or failure. A publication has the hash of the result that it counts, so that a later change is found out.

Layout::

    <root>/<pipeline>/
      pipeline.json                       the ledger's identity, topics, cluster id, isolation level, format version
      snapshots/00000/00000042.json.gz    the log of snapshots
      instants/202611/…                   its index by time
      windows/202611/<start>_<end>/       a window: manifest, attempts, results, publications, verified
      checkpoints/20261121_….json         summaries of a day's windows, all verified: enough to list them
      files/window=<start>_<end>/         the list of a window's published files, for other engines
      drivers/                            what Spark's drivers run, when it is stored in the ledger
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    LedgerCorruptError,
    LedgerError,
    TopicChangedError,
)
from airflow_kafka_offsets.ledger.file_lists import FileLists
from airflow_kafka_offsets.ledger.snapshot_log import SnapshotLog
from airflow_kafka_offsets.ledger.storage import (
    AT_A_TIME,
    LedgerPath,
    StoragePath,
    create_exclusive,
    in_parallel,
    read_json,
    require_exclusive_creation,
    to_json_bytes,
)
from airflow_kafka_offsets.ledger.summaries import Checkpoints, WindowSummary, summarise, whole_day, without_replaced
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_folders import WindowFolders, WindowIndex
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    PIPELINE,
    PIPELINE_NAME,
    LedgerIdentity,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest

FORMAT = 3
"""Formats 1 and 2 predate the first release, and had no ledger identity."""
_FIELDS = frozenset({"format", "pipeline", "ledger_id", "topics", "cluster_id", "isolation_level"})


class Ledger:
    """One pipeline's ledger.

    :param root: folder of all ledgers; any path with UPath's interface, such as Airflow's ``ObjectStoragePath``.
    :param pipeline: the pipeline's name: letters, digits, dot, underscore and hyphen.
    """

    def __init__(self, root: StoragePath, pipeline: str) -> None:
        if not PIPELINE_NAME.fullmatch(pipeline):
            raise ConfigurationError(
                "A pipeline's name may have only letters, digits, '.', '_' and '-', because it names a folder; "
                f"not {pipeline!r}."
            )
        self.pipeline = pipeline
        self.folder = LedgerPath.of(root) / pipeline
        self.window_folders = WindowFolders(self.folder)
        self.snapshots = SnapshotLog(self.folder, self.window_folders)
        self.file_lists = FileLists(self.folder, self.window_folders)
        self.checkpoints = Checkpoints(self.folder)
        self._stored: dict[str, Any] | None = None

    @property
    def uri(self) -> str:
        return str(self.folder)

    def create_or_check(self, topics: Iterable[str], cluster_id: str, isolation_level: IsolationLevel) -> None:
        """Create the pipeline, or check that the existing one matches.

        Topics may be added; a new topic starts like a new partition. Creating the ledger gives it its identity, after a
        test that the store creates files exclusively: once per ledger, not once per task.

        :raises ExclusiveCreateError: when the store lets two writers create the same file.
        :raises TopicChangedError: when the ledger was written for another cluster.
        :raises ConfigurationError: when a topic was dropped or the isolation level differs.
        :raises LedgerError: when the ledger has another format.
        :raises LedgerCorruptError: when ``pipeline.json`` is damaged.
        """
        wanted = {
            "format": FORMAT,
            "pipeline": self.pipeline,
            "ledger_id": uuid4().hex,
            "topics": sorted(set(topics)),
            "cluster_id": cluster_id,
            "isolation_level": str(isolation_level),
        }
        stored = self.read_pipeline()
        if stored is None:
            require_exclusive_creation(self.folder)
            create_exclusive(self.folder / PIPELINE, to_json_bytes(wanted))
            stored = self.read_pipeline() or {}
        self._check_format(stored)
        self._check(stored, wanted)

    def read_pipeline(self) -> dict[str, Any] | None:
        """The content of ``pipeline.json``, read once because it never changes; None when there is no such file."""
        if self._stored is None:
            self._stored = read_json(self.folder / PIPELINE)
        return self._stored

    @property
    def id(self) -> str:
        """The ledger's identity, created with it. The pipeline's name isn't one: another ledger may have the same name.

        :raises LedgerCorruptError: when ``pipeline.json`` is missing or has no identity.
        """
        return LedgerIdentity.of_pipeline(self.read_pipeline(), str(self.folder / PIPELINE)).ledger_id

    def _check_format(self, stored: dict[str, Any]) -> None:
        found = stored.get("format")
        lacking = _FIELDS - stored.keys() if found == FORMAT else set()
        if lacking or not isinstance(found, int):
            what = f"has no {', '.join(sorted(lacking))}" if lacking else f"has {found!r} as its format"
            raise LedgerCorruptError(
                f"{self.folder / PIPELINE} is damaged: it {what}. It distinguishes this ledger from others, "
                "and is never changed: restore the file as it was, from a backup or an earlier version of "
                "the object."
            )
        if found != FORMAT:
            way = "update this package" if found > FORMAT else "start another pipeline"
            raise LedgerError(
                f"The ledger {self.uri} has format {found!r}; this version reads and writes {FORMAT}: {way}."
            )

    def _check(self, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
        where = f"The ledger {self.uri}"
        self.require_cluster(wanted["cluster_id"])
        if stored["isolation_level"] != wanted["isolation_level"]:
            raise ConfigurationError(
                f"{where} is {stored['isolation_level']}; to read with {wanted['isolation_level']}, use another "
                "pipeline name."
            )
        dropped = set(stored["topics"]) - set(wanted["topics"])
        if dropped:
            raise ConfigurationError(
                f"{where} also covers {', '.join(sorted(dropped))}: name all of its topics. If a topic was "
                "deleted, start another pipeline."
            )

    def require_cluster(self, cluster_id: str) -> None:
        """Refuse a cluster other than the one that an existing ledger was written for.

        :raises TopicChangedError: when it is another cluster.
        """
        written_by = (self.read_pipeline() or {}).get("cluster_id", cluster_id)
        if written_by != cluster_id:
            raise TopicChangedError(
                f"The ledger {self.uri} was written by cluster {written_by}, but the connection reaches {cluster_id}. "
                "Use the right connection, or another pipeline name for this cluster."
            )

    def exists(self) -> bool:
        """Whether the ledger was created.

        :raises LedgerError: when the ledger has another format.
        :raises LedgerCorruptError: when ``pipeline.json`` is damaged.
        """
        stored = self.read_pipeline()
        if stored is not None:
            self._check_format(stored)
        return stored is not None

    def last_pinned(self) -> PinnedManifest | None:
        """The settled window that ends last; None when there is none. One that is still being pinned may be taken back,
        and doesn't count."""
        index = self.window_folders.index()
        found = (self.settled(window, index.live[window]) for window in index.latest_first())
        return next(filter(None, found), None)

    def settled(self, window: str, live: Sequence[int] | None = None) -> PinnedManifest | None:
        """The newest settled revision of a window; None when there is none. A newer revision that isn't settled is
        being pinned, or a crash left it: it may be taken back, so nothing permanent may depend on it.

        :param live: numbers of its revisions that count, if known.
        """
        live = self.window_folders.live_numbers(window) if live is None else live
        pinned = (self.window_folders.folder(window, number).pinned() for number in reversed(live))
        return self._own(next((stored for stored in pinned if stored is not None and stored.settled), None))

    def last_published(self) -> Manifest | None:
        """The manifest of the published window that ends last; None when nothing is published."""
        index = self.window_folders.index()
        for window in index.latest_first():
            published = self.window_folders.publication(window, index.live[window])
            if published is not None:
                return self.pinned(window, published.revision).manifest
        return None

    def pinned(self, window: str, revision: int | None = None) -> PinnedManifest:
        """A window's stored manifest.

        :param revision: the revision's number; None for the newest.
        :raises LedgerCorruptError: when there is no manifest, or it was changed.
        :raises LedgerConflictError: when it was pinned in another ledger.
        """
        folders = self.window_folders
        folder = folders.newest(window) if revision is None else folders.folder(window, revision)
        pinned = self._own(folder.pinned())
        if pinned is None:
            raise LedgerCorruptError(f"{self.uri} has no window {window}: resolve it first.")
        return pinned

    def revisions(self, window: str, known: PinnedManifest | None = None) -> list[PinnedManifest]:
        """The manifests of a window's revisions that count, oldest first. Skips revisions without a manifest, which a
        crash left, and revisions that were taken back.

        :param known: one of them, if it was read before.
        """
        pinned = (
            known if known is not None and folder.revision == known.manifest.revision else self._own(folder.pinned())
            for folder in self.window_folders.live(window)
        )
        return [stored for stored in pinned if stored is not None]

    def _own(self, pinned: PinnedManifest | None) -> PinnedManifest | None:
        return None if pinned is None else pinned.of_ledger(self.id)

    def summaries(self) -> list[WindowSummary]:
        """Summaries of all windows, in order of time. A newer revision that isn't published yet follows the published
        one.

        :raises LedgerCorruptError: naming a damaged file.
        """
        names = self.window_folders.names()
        known = self.checkpoints.read(names)
        found = in_parallel(
            lambda folder: known.get((folder.id, folder.revision)) or summarise(folder),
            self.window_folders.current(names),
        )
        return without_replaced(filter(None, found))

    def keep_day(self, window: str, index: WindowIndex | None = None) -> None:
        """Write a checkpoint of the windows that start on the same UTC day, once all are verified and cover the day up
        to its end.

        :param index: the windows, if they were listed before.
        """
        live = (index or self.window_folders.index()).live
        day = whole_day(window, live)
        verified: list[WindowFolder] = []
        # Tasks usually verify a day in order, forwards or backwards: one of its ends tells that it isn't over, without
        # a look at the others.
        for some in _in_parts([*day[:1], *day[:0:-1]]):
            folders = [self.window_folders.newest(name, live[name]) for name in some]
            if any(listing.state is not WindowState.VERIFIED for listing in in_parallel(WindowFolder.listing, folders)):
                return
            verified += folders
        if verified:
            self.checkpoints.write(filter(None, in_parallel(summarise, verified)))


def _in_parts(windows: Sequence[str]) -> Iterator[Sequence[str]]:
    """The first two, then as many as are looked at in parallel."""
    yield windows[:2]
    yield from (windows[place : place + AT_A_TIME] for place in range(2, len(windows), AT_A_TIME))
