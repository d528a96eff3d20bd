"""A schema registry's connection, as options of a Spark run. The driver asks the registry itself.

It is an Airflow connection of type ``http``: host, port and schema are the address, login and password the login. Its
extra may have ``bearer_token`` (or ``Authorization``, as the HTTP hook sends it) and ``verify``: a file of certificate
authorities, on the driver too, or false.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.kafka_offsets import undefined
from airflow_kafka_offsets.spark.values.registry import AUTHORIZATION, CA_LOCATION, URL, VERIFY, RegistrySettings

if TYPE_CHECKING:
    from airflow.sdk import Connection

_BEARER, _HEADER, _VERIFY = "bearer_token", "Authorization", "verify"


def registry_options(conn_id: str) -> JavaSettings:
    """The options by which a driver finds the registry, and logs in.

    :raises ConfigurationError: there is no such connection, it has no host, or says something that means nothing here.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise undefined(conn_id) from None
    try:
        plain = {URL: _address(connection)} | _trust(connection)
        RegistrySettings.read(plain)
        authorization = _authorization(connection)
    except ConfigurationError as error:
        raise ConfigurationError(f"Connection {conn_id}: {error}") from error
    return JavaSettings(plain, {} if authorization is None else {AUTHORIZATION: authorization})


def _address(connection: Connection) -> str:
    host = (connection.host or "").rstrip("/")
    if not host:
        raise ConfigurationError("it has no host, which is the schema registry's address.")
    if "://" in host:
        scheme, _, rest = host.partition("://")
    else:
        scheme, rest = connection.schema or "http", host
    name, slash, path = rest.partition("/")
    port = f":{connection.port}" if connection.port and ":" not in name else ""
    return f"{scheme}://{name}{port}{slash}{path}"


def _trust(connection: Connection) -> dict[str, str]:
    verify = connection.extra_dejson.get(_VERIFY, True)
    if isinstance(verify, bool) or str(verify).lower() in ("true", "false"):
        return {} if str(verify).lower() == "true" else {VERIFY: "false"}
    return {CA_LOCATION: str(verify)}


def _authorization(connection: Connection) -> str | None:
    extra = connection.extra_dejson
    token, header = extra.get(_BEARER), extra.get(_HEADER)
    given = [name for name, value in (("login", connection.login), (_BEARER, token), (_HEADER, header)) if value]
    if len(given) > 1:
        raise ConfigurationError(f"it has {given[0]} and {given[1]}: a request to the registry has one login.")
    if token:
        return f"Bearer {token}"
    if connection.login:
        return f"Basic {b64encode(f'{connection.login}:{connection.password or str()}'.encode()).decode()}"
    return None if header is None else str(header)
