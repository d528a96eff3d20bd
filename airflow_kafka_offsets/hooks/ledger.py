"""Finds a :class:`Ledger` by an argument or the ``[kafka_offsets] ledger_root`` setting."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger


def ledger_root(root: str | None) -> str:
    """The folder of all ledgers: the argument if given, else the setting.

    :raises ConfigurationError: when there is neither.
    """
    found: str = root or conf.get("kafka_offsets", "ledger_root")
    if not found:
        raise ConfigurationError(
            "No ledger folder is configured. Pass ledger_root= to the task or --ledger to the command (for "
            "example s3://aws_default@my-bucket/kafka-ledger), or set ledger_root in the [kafka_offsets] "
            "section of airflow.cfg (AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT)."
        )
    return found


def ledger_of(root: str | None, pipeline: str) -> Ledger:
    """One pipeline's ledger. Nothing is read or created: it need not exist.

    :param root: folder of all ledgers; None for the setting. May contain a connection id, before an ``@``.
    :raises ConfigurationError: when no root is configured, Airflow doesn't know its store, or the pipeline's name can't
        be a folder name.
    """
    place = ledger_root(root)
    try:
        path = ObjectStoragePath(place)
    except ValueError as error:
        raise ConfigurationError(
            f"The ledger root {place} names a store that Airflow doesn't know: {error}."
        ) from error
    return Ledger(path, pipeline)


def existing_ledger(root: str | None, pipeline: str) -> Ledger:
    """One pipeline's ledger, which must exist.

    :raises ConfigurationError: when it doesn't.
    :raises LedgerError: when it has another format.
    """
    ledger = ledger_of(root, pipeline)
    if not ledger.exists():
        raise ConfigurationError(f"There is no ledger at {ledger.uri}.")
    return ledger


def ledger_at(uri: str) -> Ledger:
    """The ledger at a ledger's URI, as found in XComs."""
    root, _, pipeline = uri.rstrip("/").rpartition("/")
    return existing_ledger(root, pipeline)
