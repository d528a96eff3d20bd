"""The reference to a pinned window: small, plain JSON that one task passes to the next through XCom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Self, TypeVar

from airflow_kafka_offsets.arguments import is_template
from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
from airflow_kafka_offsets.errors import ConfigurationError, UnprovenError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import existing_ledger, ledger_of
from airflow_kafka_offsets.hooks.schema_registry import registry_options
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import outcomes

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

    def hook(self) -> KafkaOffsetsHook:
        """The connection to the window's cluster."""
        return KafkaOffsetsHook(self.kafka_conn_id)

    @property
    def conn_ids(self) -> str:
        """Its connections, for messages."""
        return " or ".join(filter(None, (self.kafka_conn_id, self.schema_registry_conn_id)))

    def driver_options(self) -> JavaSettings:
        """What a driver is told of the window's cluster, and of its schema registry.

        :raises ConfigurationError: a connection doesn't exist, or has something that no driver understands.
        """
        kafka = self.hook().java_settings()
        if self.schema_registry_conn_id is None:
            return kafka
        registry = registry_options(self.schema_registry_conn_id)
        return JavaSettings({**kafka.plain, **registry.plain}, {**kafka.secret, **registry.secret})

    def window_in(self, ledger: Ledger) -> Window:
        """The window, as the ledger has it.

        :raises LedgerConflictError: when it was voided, or has other offsets than those that this reference was made
            for.
        """
        return ledger.state.window(self.window, self.sha256)

    def published_in(self, ledger: Ledger) -> tuple[Window, Published]:
        """The window, and the publication that counts for it.

        :raises UnprovenError: when nothing is published.
        :raises LedgerConflictError: as :meth:`window_in`.
        """
        window = self.window_in(ledger)
        if window.publication is None:
            raise self.unpublished(window)
        return window, window.publication

    def unpublished(self, window: Window) -> UnprovenError:
        """The error for a window that isn't published, or not since it is to be loaded again."""
        state = "was never published" if window.publication is None else "is to be loaded again"
        back = f", or take that back: kafka-offsets ledger reload {self.pipeline} {self.window} --take-back"
        way = "run its load first" + ("" if window.publication is None else back)
        return UnprovenError(f"Window {self.window} {state}: {way}.")


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

    def ledgers(self) -> list[Ledger]:
        """The ledger that each window is in; windows of a pipeline share it. One that can't be read says so when its
        windows are looked for: those of other pipelines don't depend on it."""
        newest: dict[tuple[str, str], int] = {}
        for ref in self.refs:
            place = ref.ledger_root, ref.pipeline
            newest[place] = max(ref.commit, newest.get(place, 0))
        by_place = {place: ledger_of(*place, at_least=commit) for place, commit in newest.items()}
        outcomes(lambda ledger: ledger.state, by_place.values())
        return [by_place[ref.ledger_root, ref.pipeline] for ref in self.refs]

    @property
    def schema_registry_conn_id(self) -> str | None:
        """The connection of their schema registry; None if they have none. Raises as :meth:`hook`."""
        return self._one("schema registries", [ref.schema_registry_conn_id for ref in self.refs])

    @property
    def conn_ids(self) -> str:
        """Their connections, for messages."""
        return self.refs[0].conn_ids

    def hook(self) -> KafkaOffsetsHook:
        """The connection to the windows' cluster.

        :raises ConfigurationError: when they have several: one Spark application reads from one.
        """
        return KafkaOffsetsHook(self._one("Kafka connections", [ref.kafka_conn_id for ref in self.refs]))

    def driver_options(self) -> JavaSettings:
        """What a driver is told of the windows' cluster, and of their schema registry. Raises as :meth:`hook`, and as
        :meth:`WindowRef.driver_options`."""
        return replace(self.refs[0], schema_registry_conn_id=self.schema_registry_conn_id).driver_options()

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
