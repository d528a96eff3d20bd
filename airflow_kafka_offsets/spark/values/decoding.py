"""Decoding of one column of a frame, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import ArrayType, ByteType, DataType, MapType, StructType

from airflow_kafka_offsets.compat.spark_versions import release_of, valid_text
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, words
from airflow_kafka_offsets.spark.values import avro, json_schema, protobuf
from airflow_kafka_offsets.spark.values.columns import replaced
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from airflow_kafka_offsets.spark.values.framing import HEADERS, Frame, in_header, names_of, why_unknown
from airflow_kafka_offsets.spark.values.json_schema import CORRUPT
from airflow_kafka_offsets.spark.values.subjects import SubjectSchemas

_HEADER, _SCHEMA, _PAYLOAD, _FOUND = (f"__kafka_offsets_{name}" for name in ("header", "schema", "payload", "found"))
"""Columns in between. Spark computes what is a column of its own once for each row."""
NOT_TEXT = "it isn't UTF-8"
NOT_JSON = "it isn't JSON of the schema"


def decode_column(rows: DataFrame, column: str, form: ValueFormat, schemas: SubjectSchemas | None) -> DataFrame:
    """Decode a column, with the columns beside it that :mod:`.columns` describes.

    :param schemas: of a format with a registry.
    :raises ConfigurationError: the schema can't be parsed, or makes no column; or the session lacks ``spark-avro``.
    """
    decoded = _decoded(rows, column, form, schemas)
    _refuse_twice(column, decoded.schema[column].dataType)
    return decoded


def _refuse_twice(column: str, kind: DataType) -> None:
    twice = _named_twice(kind)
    if twice is not None:
        ours = ", as we add one for what doesn't fit" if twice.lower() == CORRUPT else ""
        raise ConfigurationError(
            f"The type of {column} has the field {twice} twice{ours}: tables don't tell capitals from small letters. "
            "Name each field once, or load it as it is (the format binary, or string for JSON)."
        )


def _named_twice(kind: DataType) -> str | None:
    """A field's name that a struct has twice, capitals or not, at any depth."""
    for part in _parts(kind):
        names = [name.lower() for name in part.names] if isinstance(part, StructType) else []
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            return twice[0]
    return None


def _parts(kind: DataType) -> Iterator[DataType]:
    """A type, and all types within it."""
    yield kind
    if isinstance(kind, ArrayType):
        yield from _parts(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _parts(kind.valueType)
    elif isinstance(kind, StructType):
        for field in kind:
            yield from _parts(field.dataType)


def _decoded(rows: DataFrame, column: str, form: ValueFormat, schemas: SubjectSchemas | None) -> DataFrame:
    if form.name == "binary":
        return rows
    if form.name == "string":
        text = valid_text(F.col(column))
        error = F.when(F.col(column).isNotNull() & text.isNull(), F.lit(NOT_TEXT))
        return replaced(rows, column, text, error, None)
    if form.name == "json":
        return _of_ddl(rows, column, str(form.schema))
    if HEADERS not in rows.columns:
        raise ConfigurationError(
            f"Records may name the schema of their {column} in a header: read them with includeHeaders='true'."
        )
    assert schemas is not None
    if form.name == "protobuf":
        return protobuf.decode_column(rows, column, schemas, form.message)
    framed = _framed(rows, column)
    return (_of_avro if form.name == "avro" else _of_json_schema)(framed, column, schemas).drop(
        *(_HEADER, _SCHEMA, _PAYLOAD, _FOUND)
    )


def _of_ddl(rows: DataFrame, column: str, schema: str) -> DataFrame:
    whole, options = f"{schema}, {CORRUPT} STRING", {"columnNameOfCorruptRecord": CORRUPT}
    text = valid_text(F.col(column))
    try:
        found = rows.withColumn(_FOUND, F.from_json(text, whole, options))
        kind = found.schema[_FOUND].dataType
    except AnalysisException as error:  # what Spark's parser raises is one, too
        raise ConfigurationError(f"The schema {schema!r} can't be parsed: {error}") from error
    _refuse_twice(column, kind)
    if any(isinstance(part, ByteType) for part in _parts(kind)):
        raise ConfigurationError(
            f"The schema {schema!r} has the type TINYINT, as which Spark reads 200 in JSON as -56. Name it SMALLINT."
        )
    reason = F.when(text.isNull(), F.lit(NOT_TEXT)).otherwise(F.lit(NOT_JSON))
    unfit = F.when(F.col(column).isNotNull() & ~_fits_json(), reason)
    return replaced(found, column, _of_json(), unfit, None).drop(_FOUND)


def _framed(rows: DataFrame, column: str) -> DataFrame:
    rows = rows.withColumn(_HEADER, in_header(column))
    frame = Frame.of(column, F.col(_HEADER))
    return rows.withColumns({_SCHEMA: frame.schema, _PAYLOAD: frame.payload})


def _of_avro(rows: DataFrame, column: str, schemas: SubjectSchemas) -> DataFrame:
    frame = Frame(F.col(_SCHEMA), F.col(_PAYLOAD))
    try:
        found = rows.withColumn(_FOUND, avro.decoded(frame, schemas))
        found.schema  # noqa: B018  # Spark parses the schemas when it is first asked for a type
    except TypeError as error:  # Java has no such class
        package = release_of(rows.sparkSession).package("avro")
        raise ConfigurationError(
            f"This Spark has no Avro functions: add the package {package}, as connector='auto' does."
        ) from error
    except JAVA_ERRORS as error:
        raise ConfigurationError(
            f"Spark can't read the Avro schemas of {column} (as id {schemas.reader.id}): {words(error)}."
        ) from error
    fits = F.col(_FOUND)[avro.DECODED].isNotNull()
    return _finished(found, column, schemas, F.col(_FOUND)[avro.VALUE], fits, "Avro")


def _of_json_schema(rows: DataFrame, column: str, schemas: SubjectSchemas) -> DataFrame:
    known = F.col(_SCHEMA).isin(*(name for writer in schemas.writers for name in names_of(writer)))
    parsed = json_schema.parsed(F.col(_PAYLOAD), json_schema.type_of(schemas))
    found = rows.withColumn(_FOUND, F.when(known, parsed))
    return _finished(found, column, schemas, _of_json(), _fits_json(), "JSON")


def _fits_json() -> Column:
    """Whether what was parsed fits its type. Of what isn't text, and of blank text, Spark makes no struct at all."""
    return F.col(_FOUND).isNotNull() & F.col(_FOUND)[CORRUPT].isNull()


def _of_json() -> Column:
    return F.when(_fits_json(), F.col(_FOUND).dropFields(CORRUPT))


def _finished(
    rows: DataFrame, column: str, schemas: SubjectSchemas, value: Column, fits: Column, kind: str
) -> DataFrame:
    """The columns of a value by a registered schema."""
    number, reader = _id_of(schemas), schemas.reader.id
    unfit = F.concat(
        F.lit(f"it isn't {kind} of schema id "),
        number.cast("string"),
        F.when(number == reader, F.lit("")).otherwise(F.lit(f" that can be read as schema id {reader}")),
    )
    unknown = why_unknown(column, F.col(_SCHEMA))
    error = F.when(F.col(column).isNotNull() & ~fits, F.when(number.isNull(), unknown).otherwise(unfit))
    return replaced(rows, column, value, error, F.when(fits, number))


def _id_of(schemas: SubjectSchemas) -> Column:
    """The id of the schema that a record names; null if it isn't one of the window's."""
    (first, *others) = schemas.writers
    named = F.col(_SCHEMA)
    number = F.when(named.isin(*names_of(first)), F.lit(first.id))
    for writer in others:
        number = number.when(named.isin(*names_of(writer)), F.lit(writer.id))
    return number
