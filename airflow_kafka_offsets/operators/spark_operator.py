"""What operators that load windows, and operators that run ``spark-submit``, have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.arguments import DataLossPolicy, as_flag, check_choice, constant
from airflow_kafka_offsets.compat.spark_provider import kept_output
from airflow_kafka_offsets.errors import ConfigurationError, or_error
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.storage import outcomes
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import TaskWindow
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.references import WindowRef, WindowRefs
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.submission.application import LOAD_APPLICATION
from airflow_kafka_offsets.submission.spark_arguments import ConnectorChoice, SparkArguments, Submitter
from airflow_kafka_offsets.submission.tries import LoadTry

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context


class KafkaLoadOperator(BaseOperator):
    """
    Base of the operators that begin loads of pinned windows.

    :param window: what ``KafkaResolveWindowOperator`` returned; or a list of it. (templated)
    :param reload: load the window again, though it is published: once in a run of this task. (templated)
    :param application: the ready-made load, as a :class:`~airflow_kafka_offsets.spark.table_load.TableLoad`; or your
        own application. (templated)
    :param application_args: arguments of your own application. (templated)
    :param on_data_loss: what to do when records of the window are deleted: ``fail`` (default), or ``load_rest``.
    :param allow_gaps: the topics may have offsets without a record, such as transactions leave.
    :raises ConfigurationError: the ready-made load has arguments twice.
    """

    table: TableLoad | None = None

    def __init__(
        self,
        *,
        window: Any,
        reload: bool | str = False,
        application: str | TableLoad = LOAD_APPLICATION,
        application_args: Sequence[str] | None = None,
        on_data_loss: DataLossPolicy = "fail",
        allow_gaps: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application: str = LOAD_APPLICATION
        self.application_args: Any = application_args
        if not isinstance(application, TableLoad):
            self.application = application
        elif application_args:
            raise ConfigurationError(
                "application=TableLoad(...) has the load's arguments, so application_args= is for own applications."
            )
        else:
            self.table, self.application_args = application, application.arguments()
        self.window = window
        self.reload = reload
        self.on_data_loss = on_data_loss
        self.allow_gaps = allow_gaps
        WindowRef.check(window)
        as_flag(constant(reload, False), "reload")
        check_choice("on_data_loss", on_data_loss, *get_args(DataLossPolicy))

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render a copy of the table, as Airflow renders an object in place; its words are the application's."""
        self.table = deepcopy(self.table)
        super().render_template_fields(context, jinja_env)
        if self.table is not None:
            self.application_args = self.table.arguments()

    def _load(self, context: Context, refs: WindowRefs) -> LoadTry:
        """This try of the load.

        :raises ConfigurationError: when the windows are of several connections, or templates have made of the table
            what it can't be.
        """
        load = LoadTry.of(context, refs, self.on_data_loss)
        if self.table is not None:
            self.table.refuse_rendered(refs.schema_registry_conn_id)
        return load

    def _reloaded(self, load: LoadTry) -> LoadTry:
        return load.reload() if as_flag(self.reload, "reload") else load


class KafkaSparkOperator(TellsLineage, SparkSubmitOperator):
    """
    Base of the operators that run ``spark-submit`` with more than the task's own arguments.

    :param connector: ``auto`` adds Spark's Kafka connector, and what the table needs; ``given`` adds nothing.
    """

    _arguments: SparkArguments | None = None
    _output: Callable[[], list[str]] | None = None

    def __init__(self, *, connector: ConnectorChoice | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connector = connector
        if connector is not None:
            check_choice("connector", connector, *get_args(ConnectorChoice))

    def _see(self, windows: Sequence[Wanted], kafka: KafkaOffsetsHook) -> None:
        """Keep what links and lineage tell of the windows: short, as there may be a thousand manifests."""
        servers = kafka.settings().bootstrap_servers

        def seen(each: Wanted) -> TaskWindow:
            return TaskWindow.of(each.ledger.pinned(each.window), bootstrap_servers=servers)

        self.seen = tuple(each for each in outcomes(seen, windows).values() if isinstance(each, TaskWindow))

    def _submit(
        self, context: Context, submitter: Submitter, arguments: AbstractContextManager[SparkArguments]
    ) -> Exception | None:
        """Run ``spark-submit``.

        :param arguments: what it gets instead of the task's own; it exists as long as they are needed.
        :returns: why it failed; None if it didn't. Not to be raised as it is: the provider's own error repeats a long
            command, and output that the log has already.
        """
        try:
            with arguments as self._arguments:
                self._hook = None  # the hook that was used until now doesn't have these arguments
                super().execute(context)
        except Exception as error:
            return or_error(partial(submitter.program.explain, error, self._printed(), self._conn_id)) or error
        finally:
            self._arguments = None
        return None

    def _printed(self) -> list[str]:
        """The output of ``spark-submit``, without secrets."""
        return self._output() if self._output else []

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook() if self._arguments is None else self._arguments.hook(self)
        self._output = kept_output(hook)
        return hook
