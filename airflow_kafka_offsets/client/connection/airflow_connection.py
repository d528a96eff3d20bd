"""Airflow's Kafka connections, converted to librdkafka's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
