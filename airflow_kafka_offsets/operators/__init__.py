"""Operators, and which of their errors Airflow retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import KafkaOffsetsError


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
