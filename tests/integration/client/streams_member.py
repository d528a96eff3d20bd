"""A member of a streams group (KIP-1071), by the one request that Kafka Streams keeps its membership up with.

No client library for Python speaks it, so that it is written out here: StreamsGroupHeartbeat (key 88, version 0).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dev import raw_client
from tests.integration.client.cases.workload import Kafka, coordinator_id
from tests.patience import wait_until

_HEADER = struct.Struct(">hhih")
_CORRELATION_ID = 7
_COORDINATOR_PASSES = (14, 15, 16)
_NO_TAGS = b"\0"
_NOTHING = b"\0"
"""A null array or text."""
_EMPTY = b"\x01"


def _size(count: int) -> bytes:
    """Compact: one more than it is, seven bits a byte."""
    rest, found = count + 1, bytearray()
    while rest > 127:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def _text(words: str) -> bytes:
    return _size(len(words)) + words.encode()


def _array(elements: Sequence[bytes]) -> bytes:
    return _size(len(elements)) + b"".join(elements)


def _topology(topics: Sequence[str]) -> bytes:
    sources = _array([_text(topic) for topic in topics])
    # source pattern, state changelogs, repartition sinks and sources, copartition groups: it has none of them
    subtopology = _text("0") + sources + _EMPTY * 5 + _NO_TAGS
    return b"\x01" + struct.pack(">i", 0) + _array([subtopology]) + _NO_TAGS


def _joining(group: str, topics: Sequence[str]) -> bytes:
    client_id = b"streams"
    header = _HEADER.pack(88, 0, _CORRELATION_ID, len(client_id)) + client_id + _NO_TAGS
    member, epoch, endpoint_epoch, rebalance_timeout_ms = str(uuid.uuid4()), 0, 0, 60_000
    body = _text(group) + _text(member) + struct.pack(">ii", epoch, endpoint_epoch)
    body += _NOTHING * 2 + struct.pack(">i", rebalance_timeout_ms) + _topology(topics)
    body += _EMPTY * 3 + _text("process") + b"\xff" + _EMPTY + _NOTHING * 2 + b"\0" + _NO_TAGS
    return header + body


@contextmanager
def streams_member(kafka: Kafka, group: str, topics: Sequence[str]) -> Iterator[None]:
    """An active member of a streams group that reads some topics: until its session ends, 45 seconds after it joined.

    :param kafka: one broker, which coordinates all groups once it has its topic of commits.
    """
    wait_until(lambda: coordinator_id(kafka, group) is not None, "the group has a coordinator")
    frame = _joining(group, topics)
    with raw_client.connected(kafka.bootstrap_servers, timeout_s=20) as connection:

        def joined() -> bool:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", raw_client.receive_exactly(connection, 4))
            # correlation id, tags of the header, throttle time, error code
            *_, code = struct.unpack_from(">ixih", raw_client.receive_exactly(connection, size))
            assert code in (0, *_COORDINATOR_PASSES), code
            return bool(code == 0)

        wait_until(joined, "the member has joined")
        yield
