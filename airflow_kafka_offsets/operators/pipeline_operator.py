"""What the operators share: the arguments that name a pipeline, pinning a window, and which errors are retried."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_kafka_offsets.arguments import as_topics, check_choice
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import ledger_of, ledger_root
from airflow_kafka_offsets.ledger.leftovers import telling_leftovers
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.lineage.task_window import TaskWindow, TellsLineage, note_outlets
from airflow_kafka_offsets.offsets.instants import given_instant, now_ms
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, FuturePolicy, OverlapPolicy
from airflow_kafka_offsets.pipelines.snapshot_maker import SnapshotMaker
from airflow_kafka_offsets.pipelines.window_pinner import Policies, ResolvedWindow, WindowPinner
from airflow_kafka_offsets.references.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.sdk import Context


@contextmanager
def failing_fast() -> Iterator[None]:
    """Fail the task without retries on a permanent error; pass transient errors on, so that Airflow retries.

    :raises AirflowFailException: for an error of this package that isn't ``retriable``.
    """
    try:
        yield
    except KafkaOffsetsError as error:
        if error.retriable:
            raise
        raise AirflowFailException(str(error)) from error


class KafkaPipelineOperator(BaseOperator):
    """
    Base of the operators that resolve offsets for a pipeline.

    :param pipeline: name of the pipeline, and of its folder in the ledger root. (templated)
    :param topics: one topic or a list. (templated)
    :param topic_pattern: instead of ``topics``: a regular expression that the whole topic name must match. Each task
        evaluates it again; newly matching topics start like new partitions. (templated)
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param isolation_level: which records count; the load reads with the same level. (templated)
    :param on_future_record: what to do when the record at a snapshot's offset has a timestamp more than an hour ahead
        of the clock: until that time, all windows would be empty on its partition. ``fail`` (default), or ``warn``.
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    """

    template_fields: Sequence[str] = (
        *("pipeline", "topics", "topic_pattern", "ledger_root", "isolation_level", "kafka_conn_id"),
    )
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        pipeline: str,
        topics: str | list[str] | None = None,
        topic_pattern: str | None = None,
        ledger_root: str | None = None,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        on_future_record: FuturePolicy = "fail",
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.ledger_root = ledger_root
        self.isolation_level = isolation_level
        self.on_future_record = on_future_record
        self.kafka_conn_id = kafka_conn_id

    @contextmanager
    def maker(self) -> Iterator[SnapshotMaker]:
        """A snapshot maker, whose client is closed afterwards."""
        check_choice("on_future_record", self.on_future_record, *get_args(FuturePolicy))
        topics, level = as_topics(self.topics, self.topic_pattern), IsolationLevel.of(self.isolation_level)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            ledger = ledger_of(self.ledger_root, self.pipeline)
            yield SnapshotMaker(client, ledger, topics, level, self.on_future_record)


class KafkaResolvingOperator(TellsLineage, KafkaPipelineOperator):
    """
    Base of the operators that pin a window and return a reference to it.

    :param on_data_loss: what to do when records of the window are already deleted: ``fail`` (default), naming exact
        counts, or ``load_rest``, which pins the rest and records the loss in the manifest.
    :param on_overlap: what to do when another window of the pipeline, pinned or published, has some of the window's
        offsets: ``fail`` (default), naming it, or ``allow``. Both windows then load the shared records, and verify
        fails on both.
    :param new_topics_from: where a topic that is added to the pipeline starts: at a past instant, in ISO-8601 with a
        time zone, not after the end of the first window with the topic; by default at its log start offset. (templated)

    The other arguments are those of :class:`KafkaPipelineOperator`.
    """

    template_fields: Sequence[str] = (*KafkaPipelineOperator.template_fields, "new_topics_from")

    def __init__(
        self,
        *,
        on_data_loss: DataLossPolicy = "fail",
        on_overlap: OverlapPolicy = "fail",
        new_topics_from: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_data_loss = on_data_loss
        self.on_overlap = on_overlap
        self.new_topics_from = new_topics_from

    @abstractmethod
    def resolve(self, pinner: WindowPinner, context: Context) -> ResolvedWindow:
        """Pin the run's window."""

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        policies = self._policies()
        with self.maker() as maker, telling_leftovers(maker.ledger):
            resolved = self.resolve(WindowPinner(maker, policies), context)
        self._log(resolved.pinned)
        for warning in resolved.warnings:
            self.log.warning(warning)
        ref = WindowRef.of(ledger_root(self.ledger_root), resolved.pinned)
        note_outlets(self, context, ref, {})
        self.seen = TaskWindow(resolved.pinned, maker.client.bootstrap_servers)
        return ref.to_json()

    def _policies(self) -> Policies:
        check_choice("on_data_loss", self.on_data_loss, *get_args(DataLossPolicy))
        check_choice("on_overlap", self.on_overlap, *get_args(OverlapPolicy))
        return Policies(self.on_data_loss, self.on_overlap, self._new_topics_from_ms())

    def _new_topics_from_ms(self) -> int | None:
        if not self.new_topics_from:
            return None
        found = given_instant(self.new_topics_from)
        refuse_future(found, now_ms(), "Give a new_topics_from= that has passed.")
        return found

    def _log(self, pinned: PinnedManifest) -> None:
        ranges = sorted(pinned.manifest.non_empty(), key=lambda records: -records.span)
        largest = ", ".join(
            f"{records.topic}-{records.partition} [{records.start_offset}, {records.end_offset})"
            for records in ranges[:3]
        )
        self.log.info(
            "Window %s: %s offsets in %s partitions%s. Manifest %s, sha256 %s",
            pinned.manifest.window,
            pinned.manifest.span,
            len(ranges),
            f", the largest {largest}" if largest else "",
            pinned.uri,
            pinned.sha256,
        )
