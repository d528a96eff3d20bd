"""The audited table: where it is, and where its rows hold topic, partition and offset. Plain values, for Dags, commands
and drivers alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.plain_json import fields_of

_SECRET = ("password", "secret", "token")
_LONGEST_NAME = 200
_HASH = 12
"""Hex digits."""


class Columns(NamedTuple):
    """Expressions of Spark's SQL over a table's columns.

    :param topic: None if the table doesn't say: then it has the window's only topic.
    """

    topic: str | None
    partition: str
    offset: str


def _within(struct: str) -> Columns:
    return Columns(f"{struct}topic", f"{struct}partition", f"{struct}offset")


PRESETS: Mapping[str, Columns] = {
    # Kafka's own names, which Spark's source and Flink's metadata columns have
    "kafka": Columns("topic", "partition", "offset"),
    # Iceberg's sink for Kafka Connect with its KafkaMetadataTransform, flat (the default) and with nested=true
    "iceberg-connect": _within("_kafka_metadata_"),
    "iceberg-connect-nested": _within("_kafka_metadata."),
    # the JDBC sinks of Confluent (pk.mode=kafka) and Debezium (primary.key.mode=kafka)
    "jdbc-connect": _within("__connect_"),
    # Snowflake's sink: a VARIANT, which is text where it is unloaded
    "snowflake": Columns(*(f"get_json_object(RECORD_METADATA, '$.{name}')" for name in Columns._fields)),
    # Hudi's streamer with hoodie.streamer.source.kafka.append.offsets=true
    "hudi": Columns(None, "_hoodie_kafka_source_partition", "_hoodie_kafka_source_offset"),
}
"""What some writers call the three columns."""


@dataclass(slots=True)
class AuditedTable:
    """
    A table that something else has written, with topic, partition and offset in each row. All arguments but ``options``
    are templated.

    :param path: the table's folder, or its URI, in any ``format`` that Spark reads.
    :param format: ``parquet``, ``orc``, ``json``, ``csv``, ``delta``, ``hudi``, ``jdbc`` …; needed beside ``path`` or
        ``options``.
    :param table: instead, a table's name in one of Spark's catalogs, such as ``lake.orders``.
    :param query: instead, a query of Spark's SQL.
    :param options: options of Spark's reader, such as ``{"url": …, "dbtable": …}`` for JDBC. None of them may be a
        secret: they are arguments of the driver.
    :param where: a condition of Spark's SQL that all rows of the window fulfil, and that saves reading the others, such
        as ``dt = '2026-11-26'``.
    :param preset: whose names the three columns have: ``kafka`` (``topic``, ``partition``, ``offset``),
        ``iceberg-connect``, ``iceberg-connect-nested``, ``jdbc-connect``, ``snowflake`` or ``hudi``.
    :param topic: an expression of Spark's SQL instead of the preset's: a column, a field, or a name in quotes.
    :param partition: the same for the partition.
    :param offset: the same for the offset.
    :param source: a condition that only rows of the window's own cluster and topic fulfil, such as ``cluster = 'eu'``,
        if a column tells: other rows at the window's offsets are foreign. A row for which it is null is taken as one of
        them.
    """

    template_fields: ClassVar[tuple[str, ...]] = (
        *("path", "format", "table", "query", "where", "preset", "topic", "partition", "offset"),
        "source",
    )

    path: str | None = None
    _: KW_ONLY
    format: str | None = None
    table: str | None = None
    query: str | None = None
    options: Mapping[str, str] | None = None
    where: str | None = None
    preset: str = "kafka"
    topic: str | None = None
    partition: str | None = None
    offset: str | None = None
    source: str | None = None

    @property
    def name(self) -> str:
        """What it is called in the ledger: two audits of the same name are of the same table. A long one ends with a
        hash of the whole."""
        words = " ".join((self.table or self.path or self.query or self._named_by_options()).split())
        digest = hashlib.sha256(words.encode()).hexdigest()[:_HASH]
        return words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - _HASH - 2]}… {digest}"

    def _named_by_options(self) -> str:
        """A table of the same name may be in another database."""
        options = dict(self.options or {})
        inside = options.pop("dbtable", None) or options.pop("path", "")
        others = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
        return f"{inside} ({others})" if others else inside

    @property
    def relation(self) -> str | None:
        """What stands for it after FROM in Spark's SQL; None if only Spark's reader can tell, by its options."""
        if self.query is not None or self.table is not None:
            return self.table or f"({self.query})"
        return None if self.options else f"{self.format}.`{self.path}`"

    @property
    def kinds(self) -> tuple[str, ...]:
        """What Spark may need packages for."""
        return () if self.format is None else (self.format,)

    @property
    def columns(self) -> Columns:
        """Where its rows hold topic, partition and offset."""
        preset = PRESETS[self.preset]
        return Columns(self.topic or preset.topic, self.partition or preset.partition, self.offset or preset.offset)

    def check(self) -> None:
        """Refuse what names no table, or two.

        :raises ConfigurationError: naming the argument.
        """
        by_format = self.path is not None or self.options is not None
        if by_format + (self.table is not None) + (self.query is not None) != 1:
            raise ConfigurationError(
                "An audited table is a path (or options) with its format, or a table's name, or a query: give exactly "
                f"one of them, not {self!r}."
            )
        if by_format != (self.format is not None):
            raise ConfigurationError(
                f"format= goes with path= or options=, and they with it: parquet, delta, jdbc …, not {self.format!r}."
            )
        if self.preset not in PRESETS:
            raise ConfigurationError(f"preset must be one of {', '.join(PRESETS)}, not {self.preset!r}.")
        secret = sorted(
            name
            for name, value in (self.options or {}).items()
            if any(word in name.lower() or f"{word}=" in value.lower() for word in _SECRET)
        )
        if secret:
            raise ConfigurationError(
                f"options= can't hold the secret in {', '.join(secret)}: they are arguments of the driver, which logs "
                "show. Name the table in a catalog of Spark's instead (spark.sql.catalog.<name>, for JDBC "
                "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog), whose confs come from a "
                "properties file."
            )

    def topic_of(self, topics: list[str]) -> str:
        """The expression for the topic.

        :param topics: the window's topics.
        :raises ConfigurationError: when the table doesn't say, and the window has several.
        """
        if (given := self.columns.topic) is not None:
            return given
        if len(topics) == 1:
            return f"'{topics[0]}'"  # topics have neither quotes nor backslashes
        raise ConfigurationError(
            f"Rows of {self.name} don't tell their topic, and the window has several: {', '.join(topics)}. Give "
            "topic=, a column or a name in quotes; or audit a pipeline of one topic."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without what isn't set."""
        return fields_of(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`.

        :raises ConfigurationError: when it is something else.
        """
        try:
            made = cls(**fields)
        except TypeError as error:
            raise ConfigurationError(f"This is no audited table: {error}.") from error
        made.check()
        return made
