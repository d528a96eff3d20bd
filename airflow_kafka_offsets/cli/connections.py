"""Connections as commands find them: those of Airflow's UI too, which are in its metadata database.

Airflow's SDK looks there in its servers' processes alone, and takes a place that can't be asked for one that has no
such connection. Airflow's own ``connections`` commands declare themselves a server, and so do ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook
from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, StoreFailedError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, undefined
from airflow_kafka_offsets.hooks.ledger import existing_ledger, ledger_root, open_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger

_PROCESS = "_AIRFLOW_PROCESS_CONTEXT"
_LONGEST = 200
"""Characters of another library's error that are shown."""
_STORE = "airflow_kafka_offsets.ledger.storage"
"""The module that asks stores for files."""
_CHECK = "the connection that the root names (s3://<connection id>@<bucket>/…), its endpoint and its credentials"


@contextmanager
def as_server() -> Iterator[None]:
    """Look connections up where Airflow's servers do: secrets backend, environment, metadata database."""
    before = os.environ.get(_PROCESS)
    os.environ[_PROCESS] = "server"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PROCESS]
        else:
            os.environ[_PROCESS] = before


def kafka_client(args: Any) -> OffsetsClient:
    """The client of ``--conn-id``; use it as a context manager.

    :raises ConfigurationError: when there is no such connection, or it can't be read.
    """
    _require(args.conn_id)
    return KafkaOffsetsHook(args.conn_id).get_conn()


def new_ledger(root: str | None, pipeline: str) -> Ledger:
    """A pipeline's ledger, which needn't be there yet.

    :param root: ``--ledger``; None for the setting.
    :raises ConfigurationError: as :func:`kafka_client`, for the connection that the root names; the Amazon provider
        would go on without one.
    """
    _require_of_root(root)
    return open_ledger(root, pipeline)


def stored_ledger(args: Any) -> Ledger:
    """The ledger of ``--ledger`` and the pipeline, which must be there.

    :raises ConfigurationError: when it isn't, and as :func:`new_ledger`.
    """
    _require_of_root(args.ledger)
    return existing_ledger(args.ledger, args.pipeline)


def _require_of_root(root: str | None) -> None:
    authority = ledger_root(root).partition("://")[2].partition("/")[0]
    conn_id, at, _ = authority.rpartition("@")
    if at:
        _require(conn_id)


def _require(conn_id: str) -> None:
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise _why_not(conn_id) from None


def _why_not(conn_id: str) -> ConfigurationError:
    """Ask each place again, and hear what it says."""
    for place in ensure_secrets_backend_loaded():
        try:
            found = place.get_connection(conn_id)
            if found is not None:
                found.get_uri()  # decrypts
        except Exception as error:  # each place has its own
            said = _first_line(error)
            return ConfigurationError(
                f"Connection {conn_id} can't be read: {type(place).__name__} says {said}. The command needs the "
                "configuration of Airflow's servers: its database (AIRFLOW__DATABASE__SQL_ALCHEMY_CONN) and the key "
                f"that encrypts passwords (AIRFLOW__CORE__FERNET_KEY); or set AIRFLOW_CONN_{conn_id.upper()}."
            )
    return undefined(conn_id)


def store_failure(error: Exception, root: str | None) -> StoreFailedError | None:
    """What the ledger's store said, in a line; None where something else went wrong.

    Stores have errors of their own, of no common class: it is the store that failed where our code had asked it for
    files when the error came.

    :param root: ``--ledger``; None for the setting.
    """
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    ours = [name for name in modules if name.startswith("airflow_kafka_offsets.")]
    if not ours or ours[-1] != _STORE:
        return None
    place = ledger_root(root)
    check = "who may read and write there" if place.startswith("file:") else _CHECK
    return StoreFailedError(f"The ledger's store failed: {place}: {_first_line(error)}. Check {check}.")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:_LONGEST].removesuffix(": ").rstrip(".")
