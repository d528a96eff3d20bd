"""The ready-made load's arguments, as one object that operators take as their ``application``.

They are checked when the Dag is parsed, and become the words that :mod:`airflow_kafka_offsets.spark.load` reads. What a
load needs of Spark beside its connector follows from them: :mod:`.table_packages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, get_args

from airflow_kafka_offsets.arguments import check_choice, check_count, is_template
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.sinks.places import is_by_topic
from airflow_kafka_offsets.spark.values.formats import (
    BAD_RECORDS,
    DEAD_LETTER,
    KEEP,
    FormatName,
    ValueFormat,
    argument_named,
)
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION

SinkKind = Literal["parquet", "orc", "json", "delta", "iceberg"]


@dataclass(slots=True)
class TableLoad:
    """
    The ready-made load: a window's records become rows of a table.

    Give it to an operator or task group as ``application``. Text is templated::

        KafkaSparkSubmitOperator(task_id="load", window=window.output, application=TableLoad(
            "s3://lake/orders", sink="delta", value_format="avro", flatten=True))

    :param output: the table: its folder, or its name in a catalog. With ``{topic}`` in it, each topic has a table of
        its own, decoded by its own schemas.
    :param sink: what it is: ``parquet`` (default), ``orc``, ``json``, ``delta`` or ``iceberg``.
    :param value_format: what values are: ``binary`` (default), ``string``, ``json``, ``avro``, ``json-schema`` or
        ``protobuf``. The last three need the pipeline's ``schema_registry_conn_id``.
    :param key_format: what keys are: the same, but ``json``.
    :param json_schema: the fields of values that are JSON, as DDL: ``icao24 STRING, altitude_m INT``.
    :param value_subject: the registry's subject, in which ``{topic}`` stands for the topic; by default
        ``{topic}-value``. Several if a topic's records have schemas of several: the column has the type of the first.
    :param value_version: the version of the subject whose type the column has; by default the newest, or that by which
        the window was loaded before.
    :param value_message: full name of the Protobuf message, if it isn't the first of its file.
    :param flatten: the value's fields become columns: True, or a prefix for their names.
    :param bad_records: what becomes of records that can't be decoded: ``keep`` (default) them in their rows, beside the
        reason; ``dead-letter``: write them to ``dead_letters``, as they were; ``fail``.
    :param dead_letters: where ``dead-letter`` writes to: another table of the same kind, for all topics.
    :param headers: add the column ``headers``.
    :param min_partitions: split the window's ranges into at least so many tasks; None for the split plan.
    :param max_records_per_partition: offsets that one task reads at most; None for the split plan.
    :raises ConfigurationError: the output is missing, a word is unknown, or arguments contradict each other.
    """

    template_fields: ClassVar[tuple[str, ...]] = (
        *("output", "json_schema", "value_subject", "value_message", "dead_letters"),
    )

    output: str
    _: KW_ONLY
    sink: SinkKind = "parquet"
    value_format: FormatName | None = None
    key_format: FormatName = "binary"
    json_schema: str | None = None
    value_subject: str | Sequence[str] | None = None
    value_version: int | None = None
    value_message: str | None = None
    flatten: bool | str = False
    bad_records: Literal["keep", "dead-letter", "fail"] = "keep"
    dead_letters: str | None = None
    headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.output, str) or not self.output:
            raise ConfigurationError(f"TableLoad needs its output, a folder or a table's name, not {self.output!r}.")
        check_choice("sink", self.sink, *get_args(SinkKind))
        check_choice("bad_records", self.bad_records, *BAD_RECORDS)
        for name in ("value_version", "min_partitions", "max_records_per_partition"):
            check_count(getattr(self, name), name, least=1)
        formats = self.formats
        decodes = any(each.name != "binary" for each in formats)
        if (self.bad_records == DEAD_LETTER) != (self.dead_letters is not None):
            raise ConfigurationError(
                "bad_records='dead-letter' and dead_letters=, where they go, are given together or not at all."
            )
        by_topic = {
            name: is_by_topic(place)
            for name, place in (("output", self.output), ("dead_letters", self.dead_letters))
            if place and not is_template(place)
        }
        if by_topic.get("dead_letters"):
            raise ConfigurationError("dead_letters= is one table for all topics, without {topic} in its name.")
        if self.dead_letters == self.output:
            raise ConfigurationError("dead_letters= is the output: give bad records a table of their own.")
        if self.bad_records != KEEP and not decodes:
            raise ConfigurationError(
                f"bad_records={self.bad_records!r} says nothing: key and value stay binary, so that nothing is decoded."
            )
        if self.flatten is not False and formats[1].name in ("binary", "string"):
            raise ConfigurationError(
                f"flatten= needs values with fields, and value_format={formats[1].name!r} has none."
            )

    @property
    def formats(self) -> tuple[ValueFormat, ValueFormat]:
        """The formats of key and value.

        :raises ConfigurationError: arguments contradict each other.
        """
        name = self.value_format or ("binary" if self.json_schema is None else "json")
        with argument_named("value_format"):
            value = ValueFormat(name, self.json_schema, self.value_subject, self.value_version, self.value_message)
        with argument_named("key_format"):
            return ValueFormat(self.key_format), value

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it needs packages for: its sink, and the formats of key and value."""
        return self.sink, *(each.name for each in self.formats)

    @property
    def registered(self) -> str | None:
        """The first of its formats that needs a schema registry; None if neither does."""
        return next((each.name for each in self.formats if each.registered), None)

    def refuse_without_registry(self, conn_id: str | None) -> None:
        """Refuse formats that need a registry, if there is none.

        :param conn_id: the pipeline's ``schema_registry_conn_id``.
        :raises ConfigurationError: naming the format, and the pipeline's argument.
        """
        if self.registered is not None and not conn_id:
            raise ConfigurationError(
                f"The format {self.registered} needs the pipeline's schema registry: "
                "pipeline=KafkaPipeline(..., schema_registry_conn_id='...'), a connection of type http."
            )

    def arguments(self) -> list[str]:
        """The words for ``load.py``, without those that it takes by default."""
        options = {
            "--sink": self.sink if self.sink != "parquet" else None,
            "--key-format": self.key_format if self.key_format != "binary" else None,
            "--value-format": self.value_format,
            "--json-schema": self.json_schema,
            "--value-version": self.value_version,
            "--value-message": self.value_message,
            "--min-partitions": self.min_partitions,
            "--max-records-per-partition": self.max_records_per_partition,
        }
        words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        if self.value_subject:
            words += ["--value-subject", *self.formats[1].subjects]
        if self.flatten is not False:
            words += ["--flatten", *([] if self.flatten is True else [self.flatten])]
        if self.bad_records != KEEP:
            words += ["--bad-records", self.bad_records, *([self.dead_letters] if self.dead_letters else [])]
        return ["--output", self.output, *words, *(["--headers"] if self.headers else [])]


def as_application(application: str | TableLoad, arguments: Any) -> tuple[str, TableLoad | None]:
    """An operator's application: its file, and the ready-made load's arguments, if it is that.

    :param arguments: the operator's ``application_args``.
    :raises ConfigurationError: the ready-made load has arguments twice.
    """
    if not isinstance(application, TableLoad):
        return application, None
    if arguments:
        raise ConfigurationError(
            "application=TableLoad(...) has the load's arguments, so application_args= is for own applications."
        )
    return LOAD_APPLICATION, application


def refuse_without_output(application: str, arguments: Any) -> None:
    """Refuse the ready-made load without an output, which would be found only once Spark has started.

    :param arguments: words, or what becomes them when the task runs.
    :raises ConfigurationError: they name none.
    """
    if application != LOAD_APPLICATION or not isinstance(arguments, list | tuple | None):
        return
    if not any(not isinstance(word, str) or word.startswith("--output") or "{{" in word for word in arguments or ()):
        raise ConfigurationError(
            "The ready-made load has no output. Say where its rows go: application=TableLoad('s3://lake/orders'); or "
            "name an application of your own."
        )
