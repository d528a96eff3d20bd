"""Framing: a request as kafka-python's connection takes it, and what comes back, read here.

Rests on how kafka-python 3.0.x handles a request: it encodes it, keeps its header, and decodes the answer by the class
that the header names. Sending is :mod:`.transport`'s job.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kafka.errors as kafka_errors

Read = Callable[[bytes], Any]
"""From the body of a response to an answer; raises ValueError for what isn't one."""


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """A request whose body and answer go past kafka-python's codecs: where those are what costs.

    :param message: a request class of kafka-python, of a flexible version.
    :param read: reads the body of the answer.
    :param body: the request's body.
    """

    message: Any
    read: Read
    body: bytes


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A frame that isn't the answer it should be. kafka-python 3.0.12 would lose it, and wait for the deadline."""

    error: kafka_errors.KafkaProtocolError


class Framed:
    """To kafka-python: a request, its header, and the class that decodes its answer."""

    def __init__(self, request: Any) -> None:
        self._bulk = request if isinstance(request, BulkRequest) else None
        self._message = self._bulk.message if self._bulk else request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def __str__(self) -> str:
        return str(self._message)

    def encode(self, *, framed: bool, header: bool) -> Any:
        if self._bulk is None:
            return self._message.encode(framed=framed, header=header)
        frame = self._message.encode_header(flexible=True) + self._bulk.body
        return len(frame).to_bytes(4, "big") + frame

    @property
    def header(self) -> Any:
        return self

    @property
    def correlation_id(self) -> int:
        return int(self._message.header.correlation_id)

    @property
    def api_version(self) -> int:
        return int(self._message.API_VERSION)

    def get_response_class(self) -> Any:
        return self

    def parse_header(self, buffer: Any) -> Any:
        return self._message.header.get_response_class().parse_header(buffer)

    def decode(self, buffer: Any) -> Any:
        try:
            if self._bulk is not None:
                return self._bulk.read(buffer.read())
            return self._message.header.get_response_class().decode(buffer)
        except (ValueError, IndexError, TypeError, struct.error) as error:
            return Unreadable(kafka_errors.KafkaProtocolError(f"{self._message.name}: {error}"))
