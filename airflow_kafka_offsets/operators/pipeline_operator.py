"""What the operators share: the pipeline, pinning a window, and which errors are retried."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_kafka_offsets.arguments import check_choice
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, OfPipeline, as_pipeline
from airflow_kafka_offsets.ledger.ledger import PinnedManifest
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import TaskWindow, note_outlets
from airflow_kafka_offsets.offsets.windows.policies import FuturePolicy
from airflow_kafka_offsets.pipelines.resolver import ResolvedWindow, Resolver
from airflow_kafka_offsets.references.window_ref import WindowRef, WindowRefs

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


class KafkaPipelineOperator(OfPipeline, BaseOperator):
    """
    Base of the operators that resolve offsets for a pipeline.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`. (templated)
    :param on_future_record: what to do when the record at a snapshot's offset has a timestamp more than an hour ahead
        of the clock: until that time, all windows would be empty on its partition. ``fail`` (default), or ``warn``.
    """

    template_fields: Sequence[str] = ("pipeline",)
    ui_color = "#e8f4e0"

    def __init__(self, *, pipeline: KafkaPipeline, on_future_record: FuturePolicy = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = as_pipeline(pipeline)
        self.on_future_record = on_future_record
        check_choice("on_future_record", on_future_record, *get_args(FuturePolicy))


class KafkaResolvingOperator(TellsLineage, KafkaPipelineOperator):
    """Base of the operators that pin windows and return references to them. Its arguments are those of
    :class:`KafkaPipelineOperator`."""

    @abstractmethod
    def resolve(self, resolver: Resolver, context: Context) -> ResolvedWindow | list[ResolvedWindow]:
        """Pin the run's window; or its windows."""

    @failing_fast()
    def execute(self, context: Context) -> Any:
        with self.pipeline.resolver(self.on_future_record) as resolver:
            resolved = self.resolve(resolver, context)
        windows = resolved if isinstance(resolved, list) else [resolved]
        for each in windows:
            self._log(each.pinned)
            for warning in each.warnings:
                self.log.warning(warning)
        state, servers = resolver.ledger.state, resolver.client.bootstrap_servers
        found = (
            WindowRef.of(self.pipeline, each.pinned, state.windows[each.pinned.manifest.window].number)
            for each in windows
        )
        refs = WindowRefs(tuple(found), is_list=isinstance(resolved, list))
        note_outlets(self, context, refs, [{}] * len(windows))
        self.seen = tuple(TaskWindow.of(each.pinned, bootstrap_servers=servers) for each in windows)
        return refs.to_json()

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
