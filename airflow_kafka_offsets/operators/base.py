"""What our operators share: the arguments that name a pipeline, and which faults a retry can mend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_kafka_offsets.arguments import as_names
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import open_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.resolver import Resolver


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
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param isolation_level: which records count; the load reads with the same. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    """

    template_fields: Sequence[str] = ("pipeline", "topics", "ledger_root", "isolation_level", "kafka_conn_id")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        pipeline: str,
        topics: str | list[str],
        ledger_root: str | None = None,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.topics = topics
        self.ledger_root = ledger_root
        self.isolation_level = isolation_level
        self.kafka_conn_id = kafka_conn_id

    def ledger(self) -> Ledger:
        """The pipeline's ledger."""
        return open_ledger(self.ledger_root, self.pipeline)

    @contextmanager
    def resolver(self) -> Iterator[Resolver]:
        """A resolver with a client, closed afterwards."""
        topics, level = as_names(self.topics, "topics"), IsolationLevel.of(self.isolation_level)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            yield Resolver(client, self.ledger(), topics, level)
