"""The reference to a pinned window: small, plain JSON that one task passes to the next through XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from airflow_kafka_offsets.arguments import is_template
from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
from airflow_kafka_offsets.errors import ConfigurationError, UnprovenError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import existing_ledger
from airflow_kafka_offsets.hooks.schema_registry import registry_options
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.load_decisions import window_read_from
from airflow_kafka_offsets.ledger.state import Publication, Window

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

    @staticmethod
    def check(window: Any) -> None:
        """Refuse what is known not to be one when a Dag is parsed.

        :raises ConfigurationError: for the name of a task, for example.
        """
        if isinstance(window, str) and not is_template(window):
            WindowRef.from_json(window)  # type: ignore[arg-type]

    def is_same_window(self, other: WindowRef) -> bool:
        """Whether both name the same offsets of the same pipeline."""
        return (self.ledger_root, self.pipeline, self.window, self.sha256) == (
            *(other.ledger_root, other.pipeline, other.window, other.sha256),
        )

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
        return window_read_from(ledger.state, self.window, self.sha256)

    def published_in(self, ledger: Ledger) -> tuple[Window, Publication]:
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
