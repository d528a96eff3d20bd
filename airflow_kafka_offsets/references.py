"""References to windows and snapshots: small, plain JSON that one task passes to the next through XCom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Self, TypeVar

from airflow_kafka_offsets.arguments import is_template
from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
from airflow_kafka_offsets.errors import ConfigurationError, FailedWindow, LedgerConflictError, WindowsFailedError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import existing_ledger, ledger_at, ledger_of
from airflow_kafka_offsets.hooks.schema_registry import registry_options
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import outcomes
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.pipelines.attempts import Wanted

VERSION = 1
_SEVERAL = "windows"
"""Key of an asset event's ``extra`` that stands for several windows."""

T = TypeVar("T")


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
    :param commit: number of the commit that pinned it. A reader of the log begins there, which saves a request.
    :param kafka_conn_id: connection id of its cluster.
    :param schema_registry_conn_id: connection id of the registry with its topics' schemas; None if it has none.
    """

    ledger_root: str
    pipeline: str
    window: str
    manifest: str
    sha256: str
    offsets: int
    partitions: int
    commit: int
    kafka_conn_id: str
    schema_registry_conn_id: str | None = None

    @classmethod
    def of(cls, pipeline: KafkaPipeline, pinned: PinnedManifest, commit: int) -> Self:
        """The reference to a window of a pipeline.

        :param commit: number of the commit that pinned it.
        """
        manifest = pinned.manifest
        return cls(
            ledger_root=pipeline.root,
            pipeline=manifest.pipeline,
            window=manifest.window,
            manifest=pinned.uri,
            sha256=pinned.sha256,
            offsets=manifest.span,
            partitions=len(manifest.non_empty()),
            commit=commit,
            kafka_conn_id=pipeline.kafka_conn_id,
            schema_registry_conn_id=pipeline.schema_registry_conn_id,
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

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What two references to the same offsets of the same pipeline have in common."""
        return self.ledger_root, self.pipeline, self.window, self.sha256

    @staticmethod
    def check(window: Any) -> None:
        """Refuse what is known not to be one when a Dag is parsed.

        :raises ConfigurationError: for the name of a task, for example.
        """
        if isinstance(window, str) and not is_template(window):
            WindowRef.from_json(window)  # type: ignore[arg-type]

    def ledger(self) -> Ledger:
        """The ledger that the window is in."""
        return existing_ledger(self.ledger_root, self.pipeline, at_least=self.commit)

    def window_in(self, ledger: Ledger) -> Window:
        """The window, as the ledger has it.

        :raises LedgerConflictError: when it was voided, or has other offsets than those that this reference was made
            for.
        """
        return ledger.state.window(self.window, self.sha256)


@dataclass(frozen=True, slots=True)
class WindowRefs:
    """The windows that a task is about, in the order given, each once.

    :param is_list: whether the task was given a list, and so returns one, however many there are.
    """

    refs: tuple[WindowRef, ...]
    is_list: bool

    @classmethod
    def from_json(cls, given: Any) -> Self:
        """Read what a task was given: what resolve returned; or a list of it, such as a mapped resolve returns, with
        lists in it if each of those has split an interval; or the event of an asset, which may stand for several
        windows, or a list of them.

        :raises ConfigurationError: when it is something else.
        """
        found = {ref.identity: ref for ref in map(WindowRef.from_json, _flat(given))}
        return cls(tuple(found.values()), _listed(given) is not None)

    def to_json(self) -> list[dict[str, Any]] | dict[str, Any]:
        """The XCom."""
        return self.of([ref.to_json() for ref in self.refs])

    def of(self, each: Sequence[T]) -> list[T] | T:
        """What a task returns of its windows: a list if it was given one, else what there is of the only one."""
        return list(each) if self.is_list else each[0]

    def wanted(self) -> list[Wanted]:
        """The windows in their ledgers, in the same order; windows of a pipeline share theirs. One that can't be read
        says so when its windows are looked for: those of other pipelines don't depend on it."""
        newest: dict[tuple[str, str], int] = {}
        for ref in self.refs:
            place = ref.ledger_root, ref.pipeline
            newest[place] = max(ref.commit, newest.get(place, 0))
        by_place = {place: ledger_of(*place, at_least=commit) for place, commit in newest.items()}
        outcomes(lambda ledger: ledger.state, by_place.values())
        return [Wanted(by_place[ref.ledger_root, ref.pipeline], ref.window, ref.sha256) for ref in self.refs]

    def failure(self, found: Iterable[object]) -> Exception | None:
        """The error of a task of which some windows have failed: one table of them; or the reason itself, if the task
        was given no list. None if none has failed.

        :param found: what has become of each window, in the same order.
        """
        failed = [
            FailedWindow(ref.window, ref.pipeline, each)
            for ref, each in zip(self.refs, found, strict=True)
            if isinstance(each, Exception)
        ]
        if not failed:
            return None
        return WindowsFailedError(failed, len(self.refs)) if self.is_list else failed[0].error

    def raise_failed(self, found: Iterable[object]) -> None:
        """Raise :meth:`failure`, if there is one."""
        failure = self.failure(found)
        if failure is not None:
            raise failure

    @property
    def schema_registry_conn_id(self) -> str | None:
        """The connection of their schema registry; None if they have none. Raises as :meth:`hook`."""
        return self._one("schema registries", [ref.schema_registry_conn_id for ref in self.refs])

    def hook(self) -> KafkaOffsetsHook:
        """The connection to the windows' cluster.

        :raises ConfigurationError: when they have several: one Spark application reads from one.
        """
        return KafkaOffsetsHook(self._one("Kafka connections", [ref.kafka_conn_id for ref in self.refs]))

    def driver_options(self) -> JavaSettings:
        """What a driver is told of the windows' cluster, and of their schema registry.

        :raises ConfigurationError: as :meth:`hook`; or a connection doesn't exist, or has something that no driver
            understands.
        """
        kafka, conn_id = self.hook().java_settings(), self.schema_registry_conn_id
        if conn_id is None:
            return kafka
        registry = registry_options(conn_id)
        return JavaSettings({**kafka.plain, **registry.plain}, {**kafka.secret, **registry.secret})

    def _one(self, what: str, given: Sequence[T]) -> T:
        found = list(dict.fromkeys(given))
        if len(found) > 1:
            raise ConfigurationError(
                f"The windows in window= are of pipelines with several {what} ({', '.join(sorted(map(str, found)))}), "
                "and a task has one. Give the windows of each to a task of its own."
            )
        return found[0]


def _flat(given: Any) -> Iterator[Any]:
    listed = _listed(given)
    if listed is None:
        yield given
    else:
        yield from chain.from_iterable(map(_flat, listed))


def _listed(given: Any) -> Iterable[Any] | None:
    """What of a task's argument is a list; None for what isn't."""
    if isinstance(given, Mapping):
        given = given.get(_SEVERAL)
    return given if isinstance(given, Iterable) and not isinstance(given, Mapping | str) else None


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
