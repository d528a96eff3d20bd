"""ListOffsets and OffsetFetch as bytes: encode and decode requests and responses of every version, without a broker.

For code that talks to Kafka by other means, records traffic, or scripts a broker. Fields are plain values under Kafka's
names in snake case, and exactly those of the given version; numbers are as on the wire, including sentinels.
kafka-python's schemas do the work; tests compare every version with the bytes of Kafka's own classes, in both
directions.

>>> from airflow_kafka_offsets.client.codec import LIST_OFFSETS, Header
>>> asked = {"topics": [{"name": "flights", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
>>> frame = LIST_OFFSETS.request.encode(asked, 1, header=Header(7, "me"))
>>> LIST_OFFSETS.request.decode(frame, 1, header=True).header
Header(correlation_id=7, client_id='me')
>>> LIST_OFFSETS.request.decode(frame, 1, header=True).fields["topics"][0]["partitions"]
[{'partition_index': 0, 'timestamp': -1}]
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse, OffsetFetchRequest, OffsetFetchResponse


@dataclass(frozen=True, slots=True)
class Header:
    """The header in front of a message's body.

    :param correlation_id: the same in a request and its response.
    :param client_id: the client's name for itself; only in requests.
    """

    correlation_id: int
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded message.

    :param fields: values under Kafka's names in snake case; topic ids are :class:`uuid.UUID`.
    :param header: None if the message was decoded without a header.
    """

    fields: dict[str, Any]
    header: Header | None = None


@dataclass(frozen=True, slots=True)
class MessageCodec:
    """Encodes and decodes the requests, or the responses, of one API."""

    message_class: Any

    @property
    def versions(self) -> range:
        """The versions that can be encoded and decoded."""
        return range(self.message_class.min_version, self.message_class.max_version + 1)

    def encode(self, fields: Mapping[str, Any], version: int, *, header: Header | None = None) -> bytes:
        """A message's bytes, without the four-byte size prefix.

        :param fields: fields that are left out get Kafka's defaults.
        :param header: header to write before the body; None for the body alone.
        :raises ValueError: for an unknown version, a field that the version doesn't have, or a value that can't be
            written.
        """
        self._refuse_unknown(version)
        message = _made(self.message_class, fields, version)
        try:
            if header is not None:
                named = {"client_id": header.client_id} if message.is_request() else {}
                message.with_header(correlation_id=header.correlation_id, **named)
            return bytes(message.encode(header=header is not None))
        except (struct.error, TypeError, AttributeError) as error:
            raise ValueError(f"{message.name} version {version} can't be written: {error}") from error

    def decode(self, frame: bytes, version: int, *, header: bool = False) -> Decoded:
        """The message in a frame, which is all of its bytes without the four-byte size prefix.

        :param header: whether the frame has a header before the body.
        :raises ValueError: for an unknown version, or when the bytes are not such a message, end early, or continue
            past its end.
        """
        self._refuse_unknown(version)
        try:
            buffer = BytesIO(frame)
            found = self.message_class.parse_header(buffer, version=version) if header else None
            message = self.message_class.decode(buffer, version=version)
        except (struct.error, TypeError, LookupError, AttributeError, AssertionError) as error:
            raise ValueError(f"not a valid {self.message_class.name} version {version}: {error}") from error
        decoded = Decoded(message.to_dict(json=False), self._header(found, version) if header else None)
        size = len(self.encode(decoded.fields, version, header=decoded.header))
        if size != len(frame):  # kafka-python doesn't say how far it read, and accepts a string that ends early
            raise ValueError(f"{self.message_class.name} version {version} takes {size} bytes here, not {len(frame)}")
        return decoded

    def _header(self, found: Any, version: int) -> Header:
        if not self.message_class.is_request():
            return Header(found.correlation_id)
        if (found.request_api_key, found.request_api_version) != (self.message_class.API_KEY, version):
            raise ValueError(f"the header has key {found.request_api_key}, version {found.request_api_version}")
        return Header(found.correlation_id, found.client_id)

    def _refuse_unknown(self, version: int) -> None:
        if version not in self.versions:
            name, newest = self.message_class.name, self.versions[-1]
            raise ValueError(f"{name} has the versions {self.versions[0]} to {newest}, not {version}")


@dataclass(frozen=True, slots=True)
class ApiCodec:
    """One API: its key, its requests, and its responses."""

    key: int
    request: MessageCodec
    response: MessageCodec


def _made(message_class: Any, fields: Mapping[str, Any], version: int) -> Any:
    """A kafka-python message object, including nested objects."""
    known = {name: field for name, field in message_class.fields.items() if field.for_version_q(version)}
    strange = sorted(fields.keys() - known)
    if strange:
        raise ValueError(f"version {version} has no {', '.join(strange)} here; it has {', '.join(sorted(known))}")
    return message_class(version=version, **{name: _value(known[name], fields[name], version) for name in fields})


def _value(field: Any, value: Any, version: int) -> Any:
    if field.is_struct_array() and value is not None:
        return [_made(field.data_class, row, version) for row in value]
    return uuid.UUID(value) if field.name == "topic_id" and isinstance(value, str) else value


LIST_OFFSETS = ApiCodec(2, MessageCodec(ListOffsetsRequest), MessageCodec(ListOffsetsResponse))
OFFSET_FETCH = ApiCodec(9, MessageCodec(OffsetFetchRequest), MessageCodec(OffsetFetchResponse))
