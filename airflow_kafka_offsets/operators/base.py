"""What our operators share: faults that a retry can't mend fail the task at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import KafkaOffsetsError


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
