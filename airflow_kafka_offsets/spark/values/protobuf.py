"""Protobuf: batches of records go from Spark to Python as Arrow, where the ``protobuf`` runtime parses each message.

Spark's own functions need a package that isn't everywhere, and a descriptor per query; here each record names its
schema. It is parsed as the reader's message, as Protobuf's own rules of evolution mean it: what that doesn't know is
left out, and what the writer didn't know has its default. Fields become columns a batch at a time
(:mod:`.protobuf_columns`), so that Python runs once for each field of a record, not for each cell of a row.

Driver and executors need the packages ``protobuf`` and ``pyarrow``.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.values.columns import error_of, raw_of, schema_id_of
from airflow_kafka_offsets.spark.values.framing import (
    GLUE,
    GUID_LENGTH,
    ID_LENGTH,
    NO_FRAME,
    NOT_OF_SUBJECT,
    in_header,
    names_of,
)
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema
from airflow_kafka_offsets.spark.values.subjects import SubjectSchemas

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER = "__kafka_offsets_header"
_FIRST = (0,)
"""The position of a file's first message, which is written as a single zero."""
_USUAL = ID_LENGTH + 1
"""Bytes of a frame with an id and the first message."""
_DEEPEST = 100
"""Protobuf's own limit to how deep messages are in each other."""
_VARINT_BITS = 70


@dataclass(frozen=True, slots=True)
class Messages:
    """What an executor needs to parse one column; it is sent with the function.

    :param files: the reader's files as serialized descriptors, each after those that it imports.
    :param message: full name of the reader's message.
    :param writers: by the bytes that name a schema, its id, and the full names of its messages by their positions.
    """

    files: tuple[bytes, ...]
    message: str
    writers: Mapping[bytes, tuple[int, Mapping[tuple[int, ...], str]]]


def decode_column(rows: DataFrame, column: str, schemas: SubjectSchemas, message: str | None) -> DataFrame:
    """Decode a column, with the columns beside it that :mod:`.columns` describes.

    :param message: full name of the message; None for the first of the reader's file.
    :raises ConfigurationError: a package is missing, a schema is no descriptor, or there is no such message.
    """
    try:
        import pyarrow  # noqa: F401  # the executors use it
        from google.protobuf import descriptor_pb2  # noqa: F401

        from airflow_kafka_offsets.spark.values.protobuf_columns import spark_type
    except ImportError as error:
        raise ConfigurationError(
            f"Protobuf needs the Python packages protobuf and pyarrow, on the driver and the executors: {error}."
        ) from error
    needed = _messages(schemas, message)
    try:
        kind = spark_type(message_class(needed).DESCRIPTOR)
    except (ImportError, TypeError) as error:  # the second is what Protobuf's C code raises
        raise ConfigurationError(
            f"The Protobuf schema with id {schemas.reader.id} can't be used: {error}. What it imports has to be among "
            "its references in the registry, or an installed Python package's."
        ) from error
    beside = {
        column: kind,
        error_of(column): StringType(),
        raw_of(column): BinaryType(),
        schema_id_of(column): IntegerType(),
    }
    others = [field for field in rows.schema if field.name not in beside]
    order = [*rows.columns, *(name for name in beside if name not in rows.columns)]
    known = {field.name: field for field in others} | {name: StructField(name, one) for name, one in beside.items()}
    schema = StructType([known[name] for name in order])
    return rows.withColumn(_HEADER, in_header(column)).mapInArrow(_Decoder(needed, column, tuple(order)), schema)


def _messages(schemas: SubjectSchemas, message: str | None) -> Messages:
    reader = schemas.reader
    files = _files(reader, schemas.referenced[reader.id])
    names = {writer.id: _positions(writer) for writer in schemas.writers}
    found = message or names[reader.id].get(_FIRST)
    if found not in names[reader.id].values():
        there = ", ".join(names[reader.id].values()) or "none"
        raise ConfigurationError(
            f"The Protobuf schema with id {reader.id} has no message {message or ''}, but {there}: name one of these "
            "(message=)."
        )
    writers = {name: (writer.id, names[writer.id]) for writer in schemas.writers for name in names_of(writer)}
    return Messages(tuple(files), str(found), writers)


def _files(schema: RegisteredSchema, referenced: Mapping[str, RegisteredSchema]) -> Iterator[bytes]:
    """The descriptors of a schema's files, under the names by which they import each other."""
    for name, each in (*referenced.items(), (f"schema-{schema.id}.proto", schema)):
        descriptor = _descriptor(each)
        descriptor.name = name
        yield descriptor.SerializeToString()


def _descriptor(schema: RegisteredSchema) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(b64decode(schema.text, validate=True))
    except (ValueError, DecodeError):
        raise ConfigurationError(
            f"The schema registry gives the Protobuf schema with id {schema.id} as text only, not as a descriptor "
            "(format=serialized). Register descriptors, as confluent-kafka's serializer for Python does, or use a "
            "registry that translates."
        ) from None


def _positions(schema: RegisteredSchema) -> dict[tuple[int, ...], str]:
    """The full names of a file's messages, by their positions in it, the first one first."""
    descriptor = _descriptor(schema)

    def below(messages: Iterable[Any], path: tuple[int, ...], prefix: str) -> Iterator[tuple[tuple[int, ...], str]]:
        for number, each in enumerate(messages):
            name = f"{prefix}{each.name}"
            yield (*path, number), name
            yield from below(each.nested_type, (*path, number), f"{name}.")

    return dict(below(descriptor.message_type, (), f"{descriptor.package}." if descriptor.package else ""))


def message_class(needed: Messages) -> Any:
    """The reader's class, made from its descriptors."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for content in needed.files:
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(content)
        for name in descriptor.dependency:
            _add_google(pool, name)
        pool.Add(descriptor)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(needed.message))


def _add_google(pool: Any, name: str) -> None:
    """Add a file that comes with Protobuf, with those that it imports; others are among the references."""
    from importlib import import_module

    from google.protobuf import descriptor_pb2, descriptor_pool

    if not name.startswith("google/"):
        return
    try:
        pool.FindFileByName(name)
    except KeyError:
        import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        found = descriptor_pool.Default().FindFileByName(name)
        for each in found.dependencies:
            _add_google(pool, each.name)
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(found.serialized_pb))


@dataclass(frozen=True, slots=True)
class _Decoder:
    """Decodes batches on an executor."""

    needed: Messages
    column: str
    order: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from google.protobuf.message import DecodeError

        from airflow_kafka_offsets.spark.values.protobuf_columns import UNFIT, struct_of

        kind = message_class(self.needed)
        columns, first = struct_of(kind.DESCRIPTOR), _usual_frames(self.needed)

        def decode(content: bytes | None, header: bytes | None) -> tuple[Any, str | None, int | None]:
            if content is None:
                return None, None, None
            number, payload, error = first.get(content[:_USUAL]) if header is None else None, content[_USUAL:], None
            if number is None:
                number, payload, error = payload_of(self.needed, content, header)
            if error is not None:
                return None, error, None
            try:
                return kind.FromString(payload), None, number
            except DecodeError:
                return None, f"it isn't Protobuf of schema id {number}", None

        for batch in batches:
            given = dict(zip(batch.schema.names, batch.columns, strict=True))
            contents, headers = given[self.column].to_pylist(), given.pop(_HEADER).to_pylist()
            found = [decode(*pair) for pair in zip(contents, headers, strict=True)]
            try:
                made = columns([message for message, _, _ in found])
            except UNFIT:
                found = [_fitting(columns, *each) for each in found]
                made = columns([message for message, _, _ in found])
            errors = [error for _, error, _ in found]
            given[self.column] = made
            given[error_of(self.column)] = pa.array(errors, pa.string())
            bad = [None if error is None else content for error, content in zip(errors, contents, strict=True)]
            given[raw_of(self.column)] = pa.array(bad, pa.binary())
            given[schema_id_of(self.column)] = pa.array([number for _, _, number in found], pa.int32())
            yield pa.RecordBatch.from_arrays([given[name] for name in self.order], names=list(self.order))


def _fitting(
    columns: Callable[[list[Any]], Any], message: Any, error: str | None, number: int | None
) -> tuple[Any, str | None, int | None]:
    """A record as it was decoded, or why its message makes no row."""
    from airflow_kafka_offsets.spark.values.protobuf_columns import UNFIT

    try:
        columns([message])
    except UNFIT as unfit:
        return None, f"it has a value that fits no column: {unfit}", None
    return message, error, number


def _usual_frames(needed: Messages) -> dict[bytes, int]:
    """Ids by the frames that nearly all records have: an id, and the first message. Looking there first takes a quarter
    off the time."""
    return {
        name + b"\x00": number
        for name, (number, names) in needed.writers.items()
        if len(name) == ID_LENGTH and names.get(_FIRST) == needed.message
    }


def payload_of(needed: Messages, content: bytes, header: bytes | None) -> tuple[int | None, bytes, str | None]:
    """A record's schema id and message; or why there is none.

    :param header: what the record's header says of its schema; None without one.
    """
    frame = content if header is None else header
    length = {0: ID_LENGTH, 1: GUID_LENGTH}.get(frame[0] if frame else -1, 0)
    if not length or len(frame) < length:
        is_glue = header is None and content[:2] in (b"\x03\x00", b"\x03\x05") and len(content) >= GUID_LENGTH + 1
        return None, b"", GLUE if is_glue else NO_FRAME
    writer = needed.writers.get(frame[:length])
    if writer is None:
        name = str(int.from_bytes(frame[1:length], "big")) if length == ID_LENGTH else frame[1:length].hex()
        return None, b"", f"{NOT_OF_SUBJECT} {'id' if length == ID_LENGTH else 'GUID'} {name}"
    number, names = writer
    try:
        position, end = _position(frame, length)
    except (IndexError, ValueError):
        return None, b"", "the position of its message is cut short or malformed"
    found = names.get(position)
    if found is None:
        return None, b"", f"schema id {number} has no message at the position {'.'.join(map(str, position))}"
    if found != needed.message:
        return None, b"", f"it is the message {found}, not {needed.message}"
    return number, content[end:] if header is None else content, None


def _position(frame: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The position of a message in its file, and where it ends: a count and as many numbers, zigzag; none is the
    first. Raises IndexError or ValueError for what is none."""
    count, at = _zigzag(frame, at)
    if not 0 <= count <= _DEEPEST:
        raise ValueError(f"{count} numbers")
    found = []
    for _ in range(count):
        number, at = _zigzag(frame, at)
        found.append(number)
    return tuple(found) or _FIRST, at


def _zigzag(frame: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a number without end")
