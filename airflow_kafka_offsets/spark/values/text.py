"""Decoding of Kafka's bytes into text and JSON. What can't be decoded stays in the row as it was.

Spark takes any bytes for a string, and replaces those that aren't UTF-8 with U+FFFD once something looks at the
characters. So a string is only made of UTF-8 here; other bytes are kept in a binary column beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_kafka_offsets.compat.spark_versions import readable_text, valid_text
from airflow_kafka_offsets.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT = "_corrupt_record"
"""Field with the text of a value that isn't JSON of the schema."""
RAW = "raw_"
"""Prefix of the columns for bytes that aren't text."""


def decode_text(rows: DataFrame, column: str) -> DataFrame:
    """Turn a binary column into a string. If it isn't UTF-8, the string is null, and the bytes are in ``raw_<column>``,
    which is null otherwise.

    :param rows: rows of Kafka, as ``read()`` returns them.
    :param column: the column's name.
    """
    text = valid_text(rows[column])
    return rows.withColumns({column: text, f"{RAW}{column}": F.when(text.isNull(), rows[column])})


def decode_json(rows: DataFrame, schema: str, column: str = "value") -> DataFrame:
    """Turn a binary column into a struct, by the JSON in it. If it isn't JSON of the schema, its text is in the
    struct's field ``_corrupt_record``. If it isn't even UTF-8, that text has U+FFFD in place of what isn't, the other
    fields are null, and the bytes are in ``raw_<column>``. Only a null (a tombstone) becomes a null struct.

    :param rows: rows of Kafka, as ``read()`` returns them.
    :param schema: the JSON's fields, as DDL: ``icao24 STRING, altitude_m INT``.
    :param column: the column's name.
    :raises ConfigurationError: the schema can't be parsed, or has a name twice, or the name ``_corrupt_record``.
    """
    whole, options = f"{schema}, {CORRUPT} STRING", {"columnNameOfCorruptRecord": CORRUPT}
    given, text = rows[column], valid_text(rows[column])
    try:
        # Of a blank value, and of none, Spark makes no struct at all.
        blank = F.from_json(F.lit("{}"), whole, options).withField(CORRUPT, readable_text(given))
        parsed = F.when(given.isNotNull(), F.coalesce(F.from_json(text, whole, options), blank))
        found = rows.withColumns({column: parsed, f"{RAW}{column}": F.when(text.isNull(), given)})
        kind = found.schema[column].dataType
    except AnalysisException as error:  # what Spark's parser raises is one, too
        raise ConfigurationError(f"The schema {schema!r} can't be parsed: {error}") from error
    twice = named_twice(kind)
    if twice is not None:
        ours = ", which is added to it for the text of malformed values" if twice.lower() == CORRUPT else ""
        raise ConfigurationError(
            f"The schema {schema!r} has the field {twice} twice{ours}. Name each field once; tables don't tell "
            "capitals from small letters."
        )
    return found


def named_twice(kind: DataType) -> str | None:
    """A field's name that a struct has twice, capitals or not, at any depth."""
    if isinstance(kind, ArrayType):
        return named_twice(kind.elementType)
    if isinstance(kind, MapType):
        return named_twice(kind.valueType)
    if not isinstance(kind, StructType):
        return None
    names = [name.lower() for name in kind.names]
    twice = [name for name in names if names.count(name) > 1]
    return twice[0] if twice else next(filter(None, (named_twice(field.dataType) for field in kind)), None)
