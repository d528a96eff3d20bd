"""Where the frames of a Kafka connection start. A frame is a size in four bytes, then that many bytes.

Pure functions. Of the messages, they know only the first fields, which have never changed: a request's API key, version
and correlation id, and a response's correlation id.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

SIZE_BYTES = 4
REQUEST_HEAD = struct.Struct(">IhhI")
RESPONSE_HEAD = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one frame that arrived together.

    :param starts_frame: whether these bytes start with the frame's complete head.
    """

    content: bytes
    starts_frame: bool


class FrameSplitter:
    """Splits the bytes of one direction of a connection at the starts of frames.

    :param head: the part of each frame that must be complete; the bytes of an incomplete head are held back.
    """

    def __init__(self, head: struct.Struct) -> None:
        self._head = head
        self._held = b""
        self._missing = 0

    def split(self, chunk: bytes) -> list[Piece]:
        """The pieces of the next bytes, including those held back before."""
        arrived, self._held = self._held + chunk, b""
        pieces, position = [], 0
        while position < len(arrived):
            starts_frame = self._missing == 0
            if starts_frame:
                if len(arrived) - position < self._head.size:
                    self._held = arrived[position:]
                    break
                self._missing = SIZE_BYTES + int.from_bytes(arrived[position : position + SIZE_BYTES], "big")
            content = arrived[position : position + self._missing]
            pieces.append(Piece(content, starts_frame))
            position += len(content)
            self._missing -= len(content)
        return pieces


def request_head(piece: Piece) -> tuple[int, int, int]:
    """API key, version and correlation id of the request that a piece starts."""
    _, api_key, version, correlation_id = REQUEST_HEAD.unpack_from(piece.content)
    return api_key, version, correlation_id


def response_correlation_id(piece: Piece) -> int:
    """Correlation id of the response that a piece starts."""
    correlation_id: int = RESPONSE_HEAD.unpack_from(piece.content)[1]
    return correlation_id
