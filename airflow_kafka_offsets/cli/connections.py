"""How commands find connections, including those of Airflow's UI, which are in its metadata database.

Airflow's SDK looks into the database only in server processes, and treats a place that can't be asked as one without
the connection. Airflow's own ``connections`` commands declare themselves a server, and so do these.

Airflow takes seconds to import, and Kafka's client a third of one. Airflow is used only for ledgers on other machines,
and for connections that aren't in the arguments; the client only by commands that ask Kafka.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.cli import values
from airflow_kafka_offsets.errors import ConfigurationError, StoreFailedError
from airflow_kafka_offsets.hooks.ledger import existing_ledger, is_local, ledger_of, ledger_root, pipelines
from airflow_kafka_offsets.ledger.storage import first_line, is_from_store

if TYPE_CHECKING:
    from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
    from airflow_kafka_offsets.client.offsets_client import OffsetsClient
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
    from airflow_kafka_offsets.ledger.ledger import Ledger

_PROCESS = "_AIRFLOW_PROCESS_CONTEXT"
_TIMEOUT = "AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S"
_CHECK = "the connection that the root names (s3://<connection id>@<bucket>/…), its endpoint and its credentials"


@contextmanager
def as_server() -> Iterator[None]:
    """Look up connections where Airflow's servers do: secrets backend, environment, metadata database."""
    before = os.environ.get(_PROCESS)
    os.environ[_PROCESS] = "server"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PROCESS]
        else:
            os.environ[_PROCESS] = before


def asks_airflow(args: Any) -> bool:
    """Whether a command needs Airflow, because its arguments don't tell it everything."""
    asks_for_ledger = ("pipeline" in args or getattr(args, "to_window", None) is not None) and not is_local(args.ledger)
    asks_for_cluster = "conn_id" in args and not (args.bootstrap_servers or args.config)
    return asks_for_ledger or asks_for_cluster


def kafka_client(args: Any) -> OffsetsClient:
    """A client for ``--bootstrap-servers`` and ``--config``, else for ``--conn-id``; use it as a context manager.

    :raises ConfigurationError: when there is no such connection, or it can't be read.
    """
    config = _given(args)
    return _hook(args).get_conn() if config is None else _client(config)


def java_settings(args: Any) -> JavaSettings:
    """The same connection for Spark's Kafka reader.

    :raises ConfigurationError: as :func:`kafka_client`, and for what Spark's reader can't do.
    """
    config = _given(args)
    if config is None:
        return _hook(args).java_settings()
    from airflow_kafka_offsets.client.connection.java_settings import JavaSettings

    return JavaSettings.from_config(config)


def _given(args: Any) -> dict[str, Any] | None:
    """The connection's keys, if arguments have them; None if Airflow has to be asked."""
    if not args.bootstrap_servers and not args.config:
        return None
    config: dict[str, Any] = dict(_config(args.config or ()))
    config |= {"bootstrap.servers": args.bootstrap_servers} if args.bootstrap_servers else {}
    if "bootstrap.servers" not in config:
        raise ConfigurationError(
            "--config replaces the connection, and has no bootstrap.servers: add them to its file, or give "
            "--bootstrap-servers too."
        )
    return config


def _hook(args: Any) -> KafkaOffsetsHook:
    _require(args.conn_id)
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

    return KafkaOffsetsHook(args.conn_id)


def _client(config: dict[str, Any]) -> OffsetsClient:
    given = os.environ.get(_TIMEOUT) or "30"  # the setting's default
    try:
        timeout_s = values.number(given, 1)
    except ArgumentTypeError:
        why = "which isn't a whole number of seconds above 0"
        raise ConfigurationError(f"{_TIMEOUT} is {given!r}, {why}.") from None
    from airflow_kafka_offsets.client.connection.settings import ClientSettings
    from airflow_kafka_offsets.client.offsets_client import OffsetsClient

    return OffsetsClient(ClientSettings.from_config(config), timeout_s=timeout_s)


def _config(given: Sequence[str]) -> dict[str, str]:
    """Keys and values of ``--config``, each of which is one pair, or a file with one pair per line."""
    found: dict[str, str] = {}
    for each in given:
        lines = [each] if "=" in each else _lines(each)
        for line in lines:
            key, equals, value = line.partition("=")
            if not equals:
                raise ConfigurationError(f"{each} has a line without a =; each line must be KEY=VALUE.")
            found[key.strip()] = value.strip()
    return found


def _lines(path: str) -> list[str]:
    try:
        lines = map(str.strip, Path(path).read_text().splitlines())
    except OSError as error:
        raise ConfigurationError(f"--config {path} is neither KEY=VALUE nor a file: {error.strerror}.") from None
    return [line for line in lines if line and not line.startswith(("#", "!"))]


def new_ledger(root: str | None, pipeline: str) -> Ledger:
    """A pipeline's ledger, which needn't exist yet.

    :param root: ``--ledger``; None for the setting.
    :raises ConfigurationError: as :func:`kafka_client`, for the connection that the root names; without this check, the
        Amazon provider would continue without a connection.
    """
    _require_of_root(root)
    return ledger_of(root, pipeline)


def stored_ledger(args: Any, pipeline: str | None = None) -> Ledger:
    """The pipeline's ledger in ``--ledger``, which must exist.

    :param pipeline: its name; None for the command's argument.
    :raises ConfigurationError: when it doesn't, and as :func:`new_ledger`.
    """
    _require_of_root(args.ledger)
    return existing_ledger(args.ledger, args.pipeline if pipeline is None else pipeline)


def pipelines_in(args: Any) -> list[str]:
    """Names of the pipelines that have a ledger in ``--ledger``.

    :raises ConfigurationError: as :func:`new_ledger`.
    """
    _require_of_root(args.ledger)
    return pipelines(args.ledger)


def _require_of_root(root: str | None) -> None:
    authority = ledger_root(root).partition("://")[2].partition("/")[0]
    conn_id, at, _ = authority.rpartition("@")
    if at:
        _require(conn_id)


def _require(conn_id: str) -> None:
    from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise _why_not(conn_id) from None


def _why_not(conn_id: str) -> ConfigurationError:
    """Why a connection wasn't found: ask each place again for its error."""
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    from airflow_kafka_offsets.hooks.kafka_offsets import undefined, variable_of

    for place in ensure_secrets_backend_loaded():
        try:
            found = place.get_connection(conn_id)
            if found is not None:
                found.get_uri()  # decrypts
        except Exception as error:  # each place raises errors of its own
            said = first_line(error)
            return ConfigurationError(
                f"Connection {conn_id} can't be read: {type(place).__name__} says {said}. The command needs the "
                "configuration of Airflow's servers: its database (AIRFLOW__DATABASE__SQL_ALCHEMY_CONN) and the key "
                f"that encrypts passwords (AIRFLOW__CORE__FERNET_KEY); or set {variable_of(conn_id)}."
            )
    return undefined(conn_id)


def store_failure(error: Exception, root: str | None) -> StoreFailedError | None:
    """An error of the ledger's store, as one line; None when something else failed.

    :param root: ``--ledger``; None for the setting.
    """
    if not is_from_store(error):
        return None
    place = ledger_root(root)
    check = "who may read and write there" if is_local(place) else _CHECK
    return StoreFailedError(f"The ledger's store failed: {place}: {first_line(error)}. Check {check}.")
