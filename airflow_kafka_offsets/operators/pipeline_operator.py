"""What our operators share: the arguments that name a pipeline, and which faults a retry can mend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_kafka_offsets.arguments import as_topics, one_of
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import open_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.pipelines.snapshot_maker import FuturePolicy
from airflow_kafka_offsets.pipelines.window_pinner import Policies, WindowPinner


@contextmanager
def failing_fast() -> Iterator[None]:
    """Let transient faults fail the try, so that Airflow retries; let permanent ones fail the task.

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

    :param pipeline: names the ledger's folder. (templated)
    :param topics: a topic or several. (templated)
    :param topic_pattern: instead of ``topics``: a regular expression that whole names match. It is looked up by each
        task; topics that are new in it begin like new partitions. (templated)
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param isolation_level: which records count; the load reads with the same. (templated)
    :param on_future_record: what to do about a record from the future, more than an hour ahead of the clock, at a
        snapshot's offset: all windows up to its time would be empty on its partition. ``fail`` (default), or ``warn``.
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

    def ledger(self) -> Ledger:
        """The pipeline's ledger."""
        return open_ledger(self.ledger_root, self.pipeline)

    @contextmanager
    def pinner(self) -> Iterator[WindowPinner]:
        """A pinner with a client, closed afterwards."""
        topics, level = as_topics(self.topics, self.topic_pattern), IsolationLevel.of(self.isolation_level)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            yield WindowPinner(client, self.ledger(), topics, level, self.policies())

    def policies(self) -> Policies:
        """What to do about what a log may have in store."""
        one_of("on_future_record", self.on_future_record, "fail", "warn")
        return Policies(on_future_record=self.on_future_record)
