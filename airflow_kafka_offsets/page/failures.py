"""Failures as answers: what the page says when a ledger, Kafka or Airflow's database can't be read.

A store's or a connection's own message goes only to the api-server's log: it may contain secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import HTTPException, status

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError

log = logging.getLogger(__name__)

KAFKA = "Kafka couldn't be asked", status.HTTP_502_BAD_GATEWAY
DATABASE = "Airflow's database failed", status.HTTP_503_SERVICE_UNAVAILABLE


@contextmanager
def of_a_ledger() -> Iterator[None]:
    """Turn the errors of reading a ledger into answers."""
    try:
        yield
    except HTTPException:
        raise
    except ConfigurationError as error:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, str(error)) from error
    except Exception as error:  # each store has its own exceptions
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, in_words(error)) from error


def in_words(error: Exception) -> str:
    """An error of reading a ledger, for the page."""
    return str(error) if isinstance(error, KafkaOffsetsError) else _logged("The ledger's store failed", error)


@contextmanager
def of(what: str, code: int) -> Iterator[None]:
    """Turn the errors of Kafka or a database into answers, without their words, which may name brokers and settings."""
    try:
        yield
    except Exception as error:  # connections and databases raise many types
        raise HTTPException(code, _logged(what, error)) from error


def _logged(what: str, error: Exception) -> str:
    log.error("%s.", what, exc_info=error)
    return f"{what} ({type(error).__name__}). The api-server's log says more."
