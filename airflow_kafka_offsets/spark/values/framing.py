"""The frame around a value: how a record says which registered schema its bytes are of.

Confluent's serialisers put a zero byte and the schema's id, four bytes big-endian, before the bytes. Since version 8,
they can put the schema's GUID (a byte of one, and 16 bytes) into the record's header ``__value_schema_id`` or
``__key_schema_id`` instead; the bytes are then the value's own, whatever they begin with. For Protobuf, the position of
the message's type in its file follows the id or GUID: see :mod:`.protobuf`.

AWS Glue's serialisers begin with a byte of three and one of zero or five: that is told apart, and not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from pyspark.sql import Column, functions as F

from airflow_kafka_offsets.spark.values.registry import RegisteredSchema

HEADERS = "headers"
ID_LENGTH, GUID_LENGTH = 5, 17
GLUE = "it has the header of AWS Glue's schema registry, which isn't read"
NO_FRAME = "it doesn't name its schema: it begins with no zero byte and id, and no header has one"
NOT_OF_SUBJECT = "no version of its subject has schema"
_GLUE_LENGTH = 18


def header_of(column: str) -> str:
    """The name of the header that names a column's schema."""
    return f"__{column}_schema_id"


def in_header(column: str) -> Column:
    """What a record's header says of a column's schema, as bytes; null without one. The first counts, as in Confluent's
    own reader."""
    return F.expr(f"get(filter(`{HEADERS}`, header -> header.key = '{header_of(column)}'), 0).value")


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of a framed column.

    :param schema: the bytes that name the schema; null if there are none, or the column is null.
    :param payload: the bytes of that schema.
    """

    schema: Column
    payload: Column

    @classmethod
    def of(cls, column: str, header: Column) -> Frame:
        """A column's frame.

        :param header: what :func:`in_header` gives, as a column of its own, since it is looked at often.
        """
        content = F.col(column)
        named = F.when(header.isNull(), _named(content)).otherwise(_named(header))
        payload = (
            F.when(header.isNotNull(), content)
            .when(_begins(content, 0), F.substring(content, ID_LENGTH + 1, _REST))
            .otherwise(F.substring(content, GUID_LENGTH + 1, _REST))
        )
        return cls(F.when(content.isNotNull(), named), payload)


_REST = 2**31 - 1 - GUID_LENGTH


def _begins(content: Column, byte: int) -> Column:
    return F.substring(content, 1, 1) == F.lit(bytes([byte]))


def _named(content: Column) -> Column:
    """The bytes at the beginning of others that name a schema; null if they name none."""
    return F.when(
        _begins(content, 0) & (F.octet_length(content) >= ID_LENGTH), F.substring(content, 1, ID_LENGTH)
    ).when(_begins(content, 1) & (F.octet_length(content) >= GUID_LENGTH), F.substring(content, 1, GUID_LENGTH))


def names_of(schema: RegisteredSchema) -> list[bytes]:
    """The bytes by which records name a schema."""
    by_id = b"\x00" + schema.id.to_bytes(ID_LENGTH - 1, "big")
    return [by_id] if schema.guid is None else [by_id, b"\x01" + UUID(schema.guid).bytes]


def why_unknown(column: str, named: Column) -> Column:
    """Why a value isn't decoded whose frame names none of the window's schemas.

    :param column: the value's bytes.
    :param named: the bytes that name its schema; null if there are none.
    """
    content = F.col(column)
    is_glue = F.substring(content, 1, 2).isin(b"\x03\x00", b"\x03\x05") & (F.octet_length(content) >= _GLUE_LENGTH)
    number = F.conv(F.hex(F.substring(named, 2, ID_LENGTH - 1)), 16, 10)
    guid = F.lower(F.hex(F.substring(named, 2, GUID_LENGTH - 1)))
    return (
        F.when(named.isNull(), F.when(is_glue, F.lit(GLUE)).otherwise(F.lit(NO_FRAME)))
        .when(_begins(named, 0), F.concat(F.lit(f"{NOT_OF_SUBJECT} id "), number))
        .otherwise(F.concat(F.lit(f"{NOT_OF_SUBJECT} GUID "), guid))
    )
