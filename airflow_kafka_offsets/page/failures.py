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
    if isinstance(error, KafkaOffsetsError):
        return str(error)
    log.exception("The ledger can't be read.", exc_info=error)
    return f"The ledger's store failed ({type(error).__name__}). The api-server's log says more."


@contextmanager
def of_kafka() -> Iterator[None]:
    """Turn the errors of asking Kafka into answers, without their words, which may name brokers and settings."""
    try:
        yield
    except Exception as error:  # connections raise many types
        log.warning("The page can't ask Kafka: %s", error)
        detail = f"Kafka couldn't be asked ({type(error).__name__}). The api-server's log says more."
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, detail) from error


@contextmanager
def of_the_database() -> Iterator[None]:
    """Turn the errors of Airflow's database into answers."""
    try:
        yield
    except Exception as error:  # each database has its own exceptions
        log.exception("Can't read from Airflow's database what sensors wait for.", exc_info=error)
        detail = f"Airflow's database failed ({type(error).__name__}). The api-server's log says more."
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, detail) from error
