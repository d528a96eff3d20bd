"""The ledger: a folder on object storage with one pipeline's log, and what the log names.

:mod:`.files` draws the folder, :mod:`.log` changes it, :mod:`.state` says what it adds up to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar
from uuid import uuid4

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerConflictError, number_of, or_error
from airflow_kafka_offsets.ledger import decisions
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.entries import AnyEntry, Created, Published
from airflow_kafka_offsets.ledger.files import WINDOWS, manifest_file
from airflow_kafka_offsets.ledger.log import Log
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import LedgerPath, StoredFiles, require_exclusive_creation, uri_for_spark
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import check_pipeline_name
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, ranges_between
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class PinnedManifest:
    """A window's manifest, as it is stored.

    :param uri: its URI, in a form that Spark can use too.
    :param sha256: its hash, which names the file.
    """

    uri: str
    sha256: str
    manifest: Manifest


class Ledger:
    """One pipeline's ledger.

    :param root: folder of all ledgers; any path with UPath's interface, such as Airflow's ``ObjectStoragePath``.
    :param pipeline: the pipeline's name: letters, digits, dot, underscore and hyphen.
    :param at_least: the number of a commit that its log has, if one is known; it saves a request.
    """

    def __init__(self, root: Any, pipeline: str, at_least: int = 0) -> None:
        check_pipeline_name(pipeline)
        self.pipeline = pipeline
        self.folder = LedgerPath.of(root) / pipeline
        self.files = StoredFiles(self.folder)
        self.log = Log(self.files, self.uri, at_least)
        self.contents = Contents(self.files, self.uri)

    @property
    def uri(self) -> str:
        return str(self.folder)

    @cached_property
    def state(self) -> State:
        """What the log adds up to: when it was first read, and after each :meth:`change`.

        :raises LedgerCorruptError: when a commit is damaged or missing.
        """
        return self.log.read()

    def read(self) -> State:
        """The state now."""
        self.state = self.log.read()
        return self.state

    def change(self, decide: Callable[[State], Sequence[AnyEntry]]) -> int:
        """Commit what a decision says: see :meth:`.log.Log.change`. Returns the commit's number; 0 without one."""

        def stored(state: State) -> Sequence[AnyEntry]:
            entries = decide(state)
            self.contents.store(entries)  # before the commit that names it
            return entries

        self.state, number = self.log.change(stored)
        return number

    def change_each(self, decisions: Mapping[K, Callable[[State], Sequence[AnyEntry]]]) -> dict[K, KafkaOffsetsError]:
        """Commit what several decisions say, each about another window, by one commit.

        :returns: why, of those that were refused: they leave the others.
        """
        refused: dict[K, KafkaOffsetsError] = {}

        def decide(state: State) -> Sequence[AnyEntry]:
            decided = {key: or_error(partial(each, state)) for key, each in decisions.items()}
            refused.clear()
            refused.update({key: error for key, error in decided.items() if isinstance(error, KafkaOffsetsError)})
            return [entry for each in decided.values() if not isinstance(each, KafkaOffsetsError) for entry in each]

        self.change(decide)
        return refused

    @property
    def exists(self) -> bool:
        """Whether the ledger was created."""
        return self.state.created is not None

    @property
    def id(self) -> str:
        """The ledger's identity, created with it.

        :raises LedgerCorruptError: when the log doesn't begin with it.
        """
        return self.state.begun.ledger_id

    def create(self, topics: Collection[str], cluster_id: str, isolation_level: IsolationLevel) -> None:
        """Create the ledger, or check that the existing one matches. A new one gets its identity, after a test that the
        store creates files exclusively: once per ledger, not once per task.

        :raises ExclusiveCreateError: when the store lets two writers create the same file.
        :raises LedgerConflictError: when its log is lost, and files of its windows aren't.
        :raises: as :func:`.decisions.create`.
        """
        wish = Created(uuid4().hex, self.pipeline, cluster_id, str(isolation_level), tuple(sorted(set(topics))))
        if not decisions.create(self.state, wish):
            return
        require_exclusive_creation(self.folder)
        left = self.files.names(WINDOWS)  # listed before the log is read again: another task may have created it

        def created(state: State) -> Sequence[AnyEntry]:
            entries = decisions.create(state, wish)
            if entries and left:
                # Attempts would get the numbers of others, and find their results and failures.
                raise LedgerConflictError(
                    f"{self.uri} has files of {number_of(len(left), 'window')}, but no log. Restore the whole folder; "
                    "or move it away, to begin a new ledger."
                )
            return entries

        self.change(created)

    def window(self, name: str) -> Window:
        """A window that counts.

        :raises LedgerConflictError: when there is none of that name.
        """
        return self.state.window(name)

    def pinned(self, window: Window) -> PinnedManifest:
        """A window's manifest.

        :raises LedgerCorruptError: when it is missing, or was changed.
        :raises LedgerConflictError: when it was pinned in another ledger.
        """
        manifest = self.contents.manifest(window)
        if manifest.ledger_id != self.id:
            raise LedgerConflictError(
                f"Window {window.name} was pinned in ledger {manifest.ledger_id}, but {self.uri} is ledger {self.id}. "
                "Move or restore a ledger only as a whole folder."
            )
        return PinnedManifest(self.manifest_uri(window), window.manifest, manifest)

    def manifest_uri(self, window: Window) -> str:
        """The URI of a window's manifest, in a form that Spark can use too."""
        return uri_for_spark(self.folder / manifest_file(window.name, window.manifest))

    def offsets_at(self, at_ms: int) -> OffsetSnapshot:
        """The snapshot at a time that has one."""
        return self.contents.snapshot(self.state.snapshots[at_ms].offsets)

    def offsets_now(self, at_ms: int) -> OffsetSnapshot:
        """The same, as the logs go on now: without what restarts have taken since."""
        return self.contents.snapshot_at(self.state, at_ms)

    def offsets_then(self, at_ms: int, number: int) -> OffsetSnapshot:
        """The snapshot at a time that has one, as the logs went on after a commit."""
        return self.contents.snapshot_at(self.state, at_ms, number)

    def between(self, start_ms: int, end_ms: int) -> list[LogRange]:
        """The offsets between two snapshots that can exist now, without partitions that have none."""
        return [each.log_range for each in ranges_between(*map(self.offsets_now, (start_ms, end_ms))) if each.span]

    def attempt(self, window: str, number: int) -> AttemptFiles:
        """The files of an attempt."""
        return AttemptFiles(self.files, window, number)

    def published_result(self, window: str, publication: Published) -> RunResult:
        """What a published attempt read and wrote.

        :raises LedgerCorruptError: when the file is missing, or was changed since.
        """
        return self.attempt(window, publication.attempt).published(publication)
