"""Decoding: a message's body, by kafka-python's schemas, with a bound on the numbers in it.

kafka-python 3.0.12 generates a decoder for each message and version. In it, an unsigned varint, which has at most 5
bytes (KIP-482), goes on as long as a byte says that another follows, into a growing number: a megabyte of 0xFF takes
minutes on the I/O thread, where it holds up the answers of all other brokers. Here, the same code is generated with
that bound. Other users of kafka-python in the process keep their own decoders.

The generator is private API of kafka-python, which no other module uses. It isn't part of :mod:`.connection`, because
:mod:`.codec` decodes without one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.schemas.fields.codegen import CodegenContext

_NO_ERROR = b"\0\0"
_LAST_SHIFT = 28
"""By how many bits the fifth byte of a varint is shifted."""


def decode_body(message_class: Any, version: int, body: bytes | memoryview) -> Any:
    """The message in a body, without its header.

    Brokers answer in version 0 to ApiVersions in a newer version than theirs, whatever was asked for. It is the only
    message of kafka-python that isn't decoded by its schema alone.

    :param message_class: a request or response class of kafka-python.
    :raises ValueError: or one of the errors that Python raises when the bytes aren't such a message (``struct.error``,
        ``IndexError``, ``TypeError``).
    """
    message_class = message_class[None]
    if message_class is ApiVersionsResponse and bytes(body[:2]) != _NO_ERROR:
        version = 0
    return _decoder(message_class, version)(memoryview(body), 0)


class _BoundedCode(CodegenContext):  # type: ignore[misc]  # kafka-python has no types
    """A decoder's code. The line that moves on to a varint's next byte is followed by the bound."""

    def emit(self, indent: str, line: str) -> None:
        super().emit(indent, line)
        shift, _, by = line.strip().partition(" += ")
        if by == "7" and shift != "pos":  # it also skips fields of 7 bytes in all
            super().emit(indent, f"    if {shift} > {_LAST_SHIFT}: raise ValueError('a number of more than 5 bytes')")


@cache
def _decoder(message_class: Any, version: int) -> Callable[[memoryview, int], Any]:
    flexible = message_class.flexible_version_q(version)
    code = _BoundedCode()
    code.lines.append("def decode(data, pos):")
    message_class._struct.emit_decode_from(code, "obj", "    ", version=version, compact=flexible, tagged=flexible)
    code.emit("    ", "return obj")
    code.globs["_dc1"] = message_class  # the schema has only a weak reference to it, which makes no messages
    exec(compile(code.source(), f"<decoder of {message_class.name}, version {version}>", "exec"), code.globs)
    decoder: Callable[[memoryview, int], Any] = code.globs["decode"]
    return decoder
