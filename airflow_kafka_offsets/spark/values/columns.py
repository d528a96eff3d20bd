"""What becomes of a record's key and value: a column of their type, and beside it what tells of those that have none.

==================  ================================================================================================
column              holds
==================  ================================================================================================
``value``           the value; null if there is none (a tombstone), or it couldn't be decoded
``value_error``     why it couldn't be decoded; null if it could
``raw_value``       the bytes of what couldn't be decoded; null otherwise
``value_schema_id`` id of the registered schema that the value was written with; null if it wasn't decoded by one
==================  ================================================================================================

``key`` has the same, by its own name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StructType

from airflow_kafka_offsets.errors import ConfigurationError, UndecodableError
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS

COLUMNS = ("key", "value")
TOMBSTONE = "tombstone"
"""With the fields of the value as columns: whether the record had no value."""
UNDECODABLE = "kafka-offsets can't decode "
"""Begins what a job fails with, if it is to fail."""


def error_of(column: str) -> str:
    return f"{column}_error"


def raw_of(column: str) -> str:
    return f"raw_{column}"


def schema_id_of(column: str) -> str:
    return f"{column}_schema_id"


def replaced(rows: DataFrame, column: str, decoded: Column, error: Column, schema_id: Column | None) -> DataFrame:
    """Rows with a column decoded.

    :param error: why it couldn't be; null if it could, or there was nothing.
    :param schema_id: None for formats without a registry.
    """
    given = F.col(column)
    added = {
        column: decoded,
        error_of(column): error,
        raw_of(column): F.when(error.isNotNull(), given),
        **({} if schema_id is None else {schema_id_of(column): schema_id}),
    }
    return rows.withColumns(added)


def undecodable(rows: DataFrame) -> Column:
    """Whether a decoded row's key or value couldn't be."""
    errors = (F.col(error_of(column)).isNotNull() for column in COLUMNS if error_of(column) in rows.columns)
    return reduce(or_, errors, F.lit(False))


def without_errors(rows: DataFrame) -> DataFrame:
    """Rows without the columns that tell of what couldn't be decoded."""
    return rows.drop(*map(error_of, COLUMNS), *map(raw_of, COLUMNS))


def failing(rows: DataFrame) -> DataFrame:
    """Rows whose job fails at the first that couldn't be decoded, with words that name it."""
    for column in COLUMNS:
        if error_of(column) not in rows.columns:
            continue
        error = F.col(error_of(column))
        said = F.concat(
            *(F.lit(UNDECODABLE + f"the {column} of "), F.col("topic"), F.lit("-")),
            *(F.col("partition").cast("string"), F.lit(", offset "), F.col("offset").cast("string")),
            *(F.lit(": "), error, F.lit(".")),
        )
        rows = rows.withColumn(column, F.when(error.isNotNull(), F.raise_error(said)).otherwise(F.col(column)))
    return without_errors(rows)


@contextmanager
def undecodable_explained(window: str) -> Iterator[None]:
    """Say which record the job failed at that writes :func:`failing` rows.

    :param window: the window's name.
    :raises UndecodableError: naming topic, partition, offset and reason.
    """
    try:
        yield
    except JAVA_ERRORS as error:
        _, begins, said = str(error).partition(UNDECODABLE)
        if not begins:
            raise
        reason, _, _ = said.splitlines()[0].partition(" SQLSTATE: ")
        raise UndecodableError(
            f"Window {window} has a record that can't be decoded, {reason} Nothing is published. To load "
            "it all the same, keep such records in the table or write them elsewhere (bad_records=)."
        ) from error


def as_it_was(column: str) -> str:
    """The name of a copy of Kafka's own column."""
    return f"__kafka_offsets_{column}"


def copied(rows: DataFrame) -> DataFrame:
    """Rows with copies of key and value, for :func:`dead_letters`."""
    return rows.withColumns({as_it_was(column): F.col(column) for column in COLUMNS})


def dead_letters(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Kafka's own columns of copied rows, as they were before they were decoded, and why they couldn't be.

    :param columns: names of Kafka's own.
    """
    own = [F.col(as_it_was(name)).alias(name) if name in COLUMNS else F.col(name) for name in columns]
    errors = [error_of(column) for column in COLUMNS if error_of(column) in rows.columns]
    return rows.select(*own, *errors)


def flattened(rows: DataFrame, prefix: str, reserved: Collection[str]) -> DataFrame:
    """Rows whose value's fields are columns, first of all, instead of the value; and a column ``tombstone``.

    :param prefix: begins the columns' names.
    :param reserved: names of columns that the output adds.
    :raises ConfigurationError: the value has no fields, or one of them has the name of another column.
    """
    kind = rows.schema["value"].dataType
    if not isinstance(kind, StructType):
        raise ConfigurationError(f"The value is of type {kind.simpleString()}, which has no fields to make columns of.")
    others = [name for name in rows.columns if name != "value"]
    _refuse_clash([f"{prefix}{name}" for name in kind.names], {*others, TOMBSTONE, *reserved}, prefix)
    # Null by null: a value that couldn't be decoded isn't a tombstone.
    no_value = F.col("value").isNull()
    if error_of("value") in rows.columns:
        no_value &= F.col(error_of("value")).isNull()
    fields = [F.col("value")[name].alias(f"{prefix}{name}") for name in kind.names]
    return rows.select(*fields, *others, no_value.alias(TOMBSTONE))


def _refuse_clash(fields: Sequence[str], others: Collection[str], prefix: str) -> None:
    own = {name.lower() for name in others}
    clash = next((name for name in fields if name.lower() in own), None)
    if clash is None:
        return
    way = f"Choose another prefix than {prefix!r}" if prefix else "Give the fields a prefix: flatten='value_'"
    raise ConfigurationError(
        f"The value has a field {clash}, and the table a column of that name for Kafka's own. {way}; or leave "
        "flatten out, and the value is a struct."
    )
