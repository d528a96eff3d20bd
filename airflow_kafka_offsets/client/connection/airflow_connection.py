"""Airflow's Kafka connections: converted to librdkafka's keys, and read from an environment variable without importing
Airflow, which takes seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_kafka_offsets.errors import ConfigurationError

OWN_TYPE = "kafka_offsets"
"""The connection type whose host, login and password hold brokers, user and password. The type ``kafka`` has them only
in its extra."""


def variable_of(conn_id: str) -> str:
    """The environment variable that defines a connection."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """A connection's fields. Secrets stay out of ``repr``.

    :param conn_type: ``kafka_offsets``, or the Kafka provider's ``kafka``.
    :param host: brokers, with ``port`` if there is only one. Like ``login`` and ``password`` (SASL's), used only for
        our own type.
    :param extra: librdkafka's keys.
    """

    conn_type: str | None
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def keys(self) -> dict[str, Any]:
        """Librdkafka's keys: the extra and, for our own type, the form's fields."""
        extra = {key: value for key, value in self.extra.items() if value not in (None, "")}
        if self.conn_type != OWN_TYPE:
            return extra
        host = self.host if self.port is None else f"{self.host}:{self.port}"
        fields = {
            "bootstrap.servers": host if self.host else None,
            "sasl.username": self.login,
            "sasl.password": self.password,
        }
        return extra | {key: value for key, value in fields.items() if value}


def connection_in(variable: str, text: str) -> KafkaConnection:
    """The connection in an ``AIRFLOW_CONN_…`` variable, as JSON or a URI.

    :param variable: the variable's name.
    :param text: its value.
    :raises ConfigurationError: when it is neither. The message names the variable and shows nothing of its value.
    """
    try:
        return _of_json(text) if text.lstrip().startswith("{") else _of_uri(text)
    except (ValueError, TypeError, AttributeError):
        raise ConfigurationError(
            f"{variable} is neither JSON nor a URI that Airflow can read. Example: "
            '{"conn_type": "kafka", "extra": {"bootstrap.servers": "host:port"}}'
        ) from None


def _of_json(text: str) -> KafkaConnection:
    fields = json.loads(text)
    port = fields.get("port")
    return KafkaConnection(
        _type(fields.get("conn_type")),
        fields.get("host"),
        None if port in (None, "") else int(port),
        fields.get("login"),
        fields.get("password"),
        _extra(fields.get("extra")),
    )


def _of_uri(text: str) -> KafkaConnection:
    parts = urlsplit(text)
    if not parts.scheme:  # for example a type written with an underscore: URIs need a hyphen
        raise ValueError
    place = parts.netloc.rpartition("@")[2]
    host = place if parts.port is None else place.rpartition(":")[0]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    login, password = ((None if each is None else unquote(each)) for each in (parts.username, parts.password))
    return KafkaConnection(
        _type(parts.scheme), unquote(host) or None, parts.port, login, password, _extra(query.pop("__extra__", query))
    )


def _type(name: str | None) -> str | None:
    return None if name is None else name.lower().replace("-", "_")


def _extra(extra: Any) -> Mapping[str, Any]:
    found = json.loads(extra) if isinstance(extra, str) and extra else extra
    return dict(found or {})
