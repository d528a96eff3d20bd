"""The pipeline: topics of one cluster that are loaded together, with one ledger. Said once, and given to every task."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_kafka_offsets.arguments import FuturePolicy, as_name, as_names, as_topics, constant
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import existing_ledger, ledger_of, ledger_root
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import check_pipeline_name
from airflow_kafka_offsets.pipelines.resolver import Resolver

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(slots=True)
class KafkaPipeline:
    """
    Topics that are loaded together, and where their offsets are kept.

    Make one and give it to all tasks of a Dag, and to other Dags of the same pipeline. All arguments are templated::

        orders = KafkaPipeline("orders_hourly", "orders")
        window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)

    :param name: the pipeline's name, and that of its folder in the ledger root: letters, digits, dot, underscore and
        hyphen.
    :param topics: one topic or a list.
    :param topic_pattern: instead of ``topics``: a regular expression that the whole topic name must match. Each task
        that resolves evaluates it again; newly matching topics start like new partitions.
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``.
    :param isolation_level: which records count: ``read_committed`` (default), up to the last stable offset; or
        ``read_uncommitted``, up to the high watermark. The load reads with the same level.
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default.
    :param schema_registry_conn_id: connection id, of type ``http``, of the registry with the schemas of the topics'
        keys and values. Drivers get it with the window. None if loads need none.
    :raises ConfigurationError: when one of them that isn't a template can't be what it should be.
    """

    template_fields: ClassVar[tuple[str, ...]] = (
        *("name", "topics", "topic_pattern", "kafka_conn_id", "isolation_level", "ledger_root"),
        "schema_registry_conn_id",
    )

    name: str
    topics: str | Collection[str] | None = None
    _: KW_ONLY
    topic_pattern: str | None = None
    kafka_conn_id: str = KafkaOffsetsHook.default_conn_name
    isolation_level: str = IsolationLevel.READ_COMMITTED
    ledger_root: str | None = None
    schema_registry_conn_id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.topics, str | list | tuple | set | frozenset | None):
            raise ConfigurationError(
                f"topics must be a name or a list of names, not {self.topics!r}. Another task's output goes into a "
                "template, such as topics=\"{{ ti.xcom_pull('task') }}\"."
            )
        if isinstance(self.topics, set | frozenset):
            # Their own order differs between processes, and Airflow compares a Dag's text with that of the last parse.
            self.topics = sorted(self.topics)
        self.isolation_level = str(self.isolation_level)
        self._check()

    def _check(self) -> None:
        """Check what is known when the Dag is parsed. That it names topics is a matter of the task."""
        check_pipeline_name(constant(self.name, "name"))
        if self.topics is not None or self.topic_pattern is not None:
            as_topics(constant(self.topics, "topic"), constant(self.topic_pattern, "topic"))
        as_name(constant(self.kafka_conn_id, "conn_id"), "kafka_conn_id")
        IsolationLevel.of(constant(self.isolation_level, IsolationLevel.READ_COMMITTED))

    def ledger(self) -> Ledger:
        """The pipeline's ledger, which need not exist yet."""
        return ledger_of(self.ledger_root, self.name)

    def existing_ledger(self) -> Ledger:
        """The pipeline's ledger.

        :raises ConfigurationError: when it doesn't exist.
        """
        return existing_ledger(self.ledger_root, self.name)

    @property
    def root(self) -> str:
        """The folder of all ledgers: this pipeline's, or the setting's."""
        return ledger_root(self.ledger_root)

    @property
    def level(self) -> IsolationLevel:
        """Which records count."""
        return IsolationLevel.of(self.isolation_level)

    def wanted(self) -> tuple[str, ...] | re.Pattern[str]:
        """The topics, by name or by pattern.

        :raises ConfigurationError: when there is neither, or both.
        """
        return as_topics(self.topics, self.topic_pattern)

    def names(self) -> tuple[str, ...]:
        """The topics, by name.

        :raises ConfigurationError: when they are named by a pattern.
        """
        if self.topic_pattern is not None:
            raise ConfigurationError(
                f"Pipeline {self.name} has a topic_pattern, but this task needs its topics by name: give it topics=."
            )
        return as_names(self.topics, "topics")

    @contextmanager
    def resolver(self, on_future_record: FuturePolicy = "fail") -> Iterator[Resolver]:
        """A resolver, whose client is closed afterwards.

        :param on_future_record: what to do about a record from the future, ``fail`` or ``warn``.
        """
        wanted, level, ledger = self.wanted(), self.level, self.ledger()
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            yield Resolver(client, ledger, wanted, level, on_future_record)


def as_pipeline(pipeline: Any, topics: str | Collection[str] | None = None) -> KafkaPipeline:
    """A pipeline of its own for a task, as templates are rendered in place.

    :param pipeline: a :class:`KafkaPipeline`; or, with ``topics``, a name.
    :raises ConfigurationError: when it is something else.
    """
    if isinstance(pipeline, KafkaPipeline) and topics is None:
        return copy(pipeline)
    if isinstance(pipeline, str) and topics is not None:
        return KafkaPipeline(pipeline, topics)
    example = 'pipeline=KafkaPipeline("orders_hourly", "orders")'
    raise ConfigurationError(
        f"pipeline= takes a KafkaPipeline, which names its topics, such as {example}; not {pipeline!r}"
        f"{'' if topics is None else ' with topics='}. Only task groups take a name, with topics= beside it."
    )


class OfPipeline:
    """Mixin for tasks that take a pipeline. Airflow renders the templates of an object in place, and tasks share their
    pipeline: so each renders a copy."""

    pipeline: KafkaPipeline

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render the task's templates, those of its pipeline included."""
        self.pipeline = copy(self.pipeline)
        super().render_template_fields(context, jinja_env)  # type: ignore[misc]  # Airflow's BaseOperator has it
