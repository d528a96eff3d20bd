"""The kept client: one client from poll to poll, made anew when somebody has edited the connection."""

from __future__ import annotations

from typing import Self

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.hooks.kafka_offsets import client_timeout_s


class KeptClient:
    """A client that stays connected between calls. Used by one thread at a time; closed in the end."""

    def __init__(self) -> None:
        self._settings: ClientSettings | None = None
        self._client: OffsetsClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, settings: ClientSettings) -> OffsetsClient:
        """The client for these settings: the last one, if they are the same."""
        if self._client is None or settings != self._settings:
            self.close()
            self._client, self._settings = OffsetsClient(settings, timeout_s=client_timeout_s()), settings
        return self._client

    def close(self) -> None:
        """Close its connections. The next :meth:`get` makes a new client."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
