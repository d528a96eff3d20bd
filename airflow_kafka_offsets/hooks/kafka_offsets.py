"""The hook: builds an :class:`OffsetsClient` from an Airflow connection, new or kept from poll to poll."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, conf

from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError

if TYPE_CHECKING:
    from airflow.sdk import Connection

T = TypeVar("T")
_OWN_TYPE = "kafka_offsets"
"""The connection type whose host, login and password hold brokers, user and password. The type ``kafka`` has them only
in its extra."""


class KafkaOffsetsHook(BaseHook):
    """
    Asks Kafka for offsets.

    Connections of the Kafka provider (type ``kafka``) work as they are: their extra holds librdkafka's keys. So do
    connections of our own type ``kafka_offsets``: their host is ``bootstrap.servers``, their login and password are
    SASL's, and their extra holds the same keys.

    :param kafka_conn_id: connection id.
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_default"
    conn_type = _OWN_TYPE
    hook_name = "Kafka Offsets"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def get_conn(self, most_s: float | None = None) -> OffsetsClient:
        """A new client; use it as a context manager, or close it.

        :param most_s: upper limit on the seconds that one call to Kafka may take; the setting may be lower.
        """
        return OffsetsClient(self.settings(), timeout_s=client_timeout_s(most_s))

    async def asettings(self) -> ClientSettings:
        """The client's settings, looked up without blocking the event loop.

        :raises ConfigurationError: as for :meth:`settings`.
        """
        try:
            connection = await self.aget_connection(self.kafka_conn_id)
        except AirflowNotFoundException:
            raise undefined(self.kafka_conn_id) from None
        return _read(connection, ClientSettings.from_config)

    def settings(self) -> ClientSettings:
        """The client's settings.

        :raises ConfigurationError: for an unknown key, which the message names, or without bootstrap servers.
        """
        return _read(self._connection(), ClientSettings.from_config)

    def java_settings(self) -> JavaSettings:
        """The same connection as options of Spark's Kafka reader.

        :raises ConfigurationError: for a key that is unknown or has no counterpart in Java.
        """
        return _read(self._connection(), JavaSettings.from_config)

    def _connection(self) -> Connection:
        try:
            return self.get_connection(self.kafka_conn_id)
        except AirflowNotFoundException:
            raise undefined(self.kafka_conn_id) from None

    def test_connection(self) -> tuple[bool, str]:
        """For the button in Airflow's connection form."""
        try:
            with self.get_conn() as client:
                return True, f"Connected to Kafka cluster {client.cluster_id()}."
        except KafkaOffsetsError as error:
            return False, str(error)


def undefined(conn_id: str) -> ConfigurationError:
    """The error for a connection that doesn't exist."""
    return ConfigurationError(
        f"There is no connection {conn_id}. Create it in Airflow's UI (Admin, Connections), define it in "
        f"the environment variable {variable_of(conn_id)}, or name another connection."
    )


def variable_of(conn_id: str) -> str:
    """The environment variable that defines a connection."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def client_timeout_s(most_s: float | None = None) -> float:
    """Seconds that one call to Kafka may take: the ``[kafka_offsets] client_timeout_s`` setting.

    :param most_s: its upper limit; None for no limit.
    """
    timeout_s = float(conf.getint("kafka_offsets", "client_timeout_s"))
    return timeout_s if most_s is None else min(most_s, timeout_s)


def _read(connection: Connection, settings_of: Callable[[dict[str, Any]], T]) -> T:
    """Settings from a connection's keys; an error also names the connection."""
    try:
        keys = _keys(connection)
        named = keys.get("oauth_cb")
        return settings_of(keys | {"oauth_cb": _allowed(named)} if isinstance(named, str) else keys)
    except ConfigurationError as error:
        raise ConfigurationError(f"Connection {connection.conn_id}: {error}") from error


def _keys(connection: Connection) -> dict[str, Any]:
    """Librdkafka's keys: the extra and, for our own type, the form's fields. Its port is set if there is one broker."""
    keys = {key: value for key, value in connection.extra_dejson.items() if value not in (None, "")}
    if connection.conn_type == _OWN_TYPE:
        host, port = connection.host, connection.port
        servers = f"{host}:{port}" if host and port is not None else host
        fields = {"bootstrap.servers": servers, "sasl.username": connection.login, "sasl.password": connection.password}
        keys |= {key: value for key, value in fields.items() if value}
    return keys


def _allowed(function: str) -> Any:
    """Import the function that a connection names. Like the Kafka provider, only from an allowlist: people who may edit
    connections mustn't choose what code runs.

    :raises ConfigurationError: when the setting doesn't allow the function, or it can't be imported.
    """
    allowed = [name.strip() for name in conf.get("apache_kafka", "callback_allowlist", fallback="").split(",")]
    if function not in allowed:
        raise ConfigurationError(
            f"oauth_cb names {function}, which isn't in Airflow's setting [apache_kafka] callback_allowlist. Add "
            "it there if you trust it."
        )
    module, _, name = function.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"oauth_cb names {function}, which can't be imported: {error}.") from error


class KeptClient:
    """A client that stays connected from poll to poll, and is replaced when the connection has been edited. Use it from
    one thread at a time, and close it.

    :param most_s: upper limit on the seconds that one call to Kafka may take; the setting may be lower.
    """

    def __init__(self, most_s: float | None = None) -> None:
        self._most_s = most_s
        self._settings: ClientSettings | None = None
        self._client: OffsetsClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, settings: ClientSettings) -> OffsetsClient:
        """The client for these settings: the existing client if they are unchanged."""
        if self._client is None or settings != self._settings:
            self.close()
            self._client = OffsetsClient(settings, timeout_s=client_timeout_s(self._most_s))
            self._settings = settings
        return self._client

    def close(self) -> None:
        """Close the client's connections. The next :meth:`get` makes a new client."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
