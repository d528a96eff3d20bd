"""Records that no schema of the topic decodes, made by hand, each with what the load says of it."""

from __future__ import annotations

UNKNOWN_ID = 1_000_000


def id_of(value: bytes | None) -> int:
    """The id in a value's frame."""
    assert value is not None
    return int.from_bytes(value[1:5], "big")


def broken(known_id: int, payload: bytes, what: str) -> list[tuple[bytes, str]]:
    """Values, and the reasons why they aren't decoded.

    :param known_id: id of one of the topic's schemas.
    :param payload: bytes that are none of it.
    :param what: what those bytes aren't.
    """
    no_frame = "it doesn't name its schema: it begins with no zero byte and id, and no header has one"
    frame = b"\x00" + known_id.to_bytes(4, "big")
    return [
        (b"unframed", no_frame),
        (b"", no_frame),
        (b"\x00\x02", no_frame),
        (b"\x01" + bytes(3), no_frame),
        (
            b"\x00" + UNKNOWN_ID.to_bytes(4, "big") + b"\x00\x02a",
            f"no version of its subject has schema id {UNKNOWN_ID}",
        ),
        (b"\x01" + bytes(16) + b"\x00", f"no version of its subject has schema GUID {'0' * 32}"),
        (b"\x03\x00" + bytes(16) + b"x", "it has the header of AWS Glue's schema registry, which isn't read"),
        (frame + payload, f"it isn't {what}"),
    ]
