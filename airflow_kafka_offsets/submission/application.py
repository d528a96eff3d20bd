"""What a task's ``application`` is: the ready-made load with its arguments, or the user's own."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION


def as_application(application: str | TableLoad, arguments: Any) -> tuple[str, TableLoad | None]:
    """An operator's application: its file, and the ready-made load's arguments, if it is that.

    :param arguments: the operator's ``application_args``.
    :raises ConfigurationError: the ready-made load has arguments twice.
    """
    if not isinstance(application, TableLoad):
        return application, None
    if arguments:
        raise ConfigurationError(
            "application=TableLoad(...) has the load's arguments, so application_args= is for own applications."
        )
    return LOAD_APPLICATION, application


def refuse_without_output(application: str, arguments: Any) -> None:
    """Refuse the ready-made load without an output, which would be found only once Spark has started.

    :param arguments: words, or what becomes them when the task runs.
    :raises ConfigurationError: they name none.
    """
    if application != LOAD_APPLICATION or not isinstance(arguments, list | tuple | None):
        return
    if not any(not isinstance(word, str) or word.startswith("--output") or "{{" in word for word in arguments or ()):
        raise ConfigurationError(
            "The ready-made load has no output. Say where its rows go: application=TableLoad('s3://lake/orders'); or "
            "name an application of your own."
        )
