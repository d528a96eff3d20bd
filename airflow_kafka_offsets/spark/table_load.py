"""The ready-made load's arguments, as one object that operators take as their ``application``.

They are checked when the Dag is parsed, travel to the driver as words of a command line, and are the same object there:
:mod:`airflow_kafka_offsets.spark.load` runs it. Imports nothing from pyspark.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, get_args

from airflow_kafka_offsets.arguments import check_choice, check_count, is_template
from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.sinks.sink import is_by_topic
from airflow_kafka_offsets.spark.values.formats import FormatName, ValueFormat, argument_named, as_format

SinkKind = Literal["parquet", "orc", "json", "delta", "iceberg"]
BadRecords = Literal["keep", "dead-letter", "fail"]
_GLUES = {
    *("--JOB_ID", "--JOB_RUN_ID", "--JOB_NAME", "--TempDir", "--RedshiftTempDir", "--SECURITY_CONFIGURATION"),
    *("--encryption-type", "--continuation-option", "--airflow_task_uuid", "--scriptLocation", "--job-language"),
    *("--conf", "--extra-py-files", "--extra-jars", "--extra-files"),
    *("--job-bookmark-option", "--job-bookmark-from", "--job-bookmark-to"),
}
"""Arguments that AWS Glue adds to a script's own, as listed in its library awsglue.utils, and one that Airflow's Glue
operator adds; some take a value."""


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
    :param value_format: what values are: the name of a format, ``binary`` (default), ``string``, ``avro``,
        ``json-schema`` or ``protobuf``; or a :class:`~airflow_kafka_offsets.spark.values.formats.ValueFormat`, which
        says more of it, such as the fields of ``json``. The last three need the pipeline's ``schema_registry_conn_id``.
    :param key_format: what keys are: the same.
    :param flatten: the value's fields become columns: True, or a prefix for their names.
    :param bad_records: what becomes of records that can't be decoded: ``keep`` (default) them in their rows, beside the
        reason; ``dead-letter``: write them to ``dead_letters``, as they were; ``fail``.
    :param dead_letters: where ``dead-letter`` writes to: another table of the same kind, for all topics.
    :param headers: add the column ``headers``.
    :param min_partitions: split the window's ranges into at least so many tasks; None for the split plan.
    :param max_records_per_partition: offsets that one task reads at most; None for the split plan.
    :raises ConfigurationError: the output is missing, a word is unknown, or arguments contradict each other.
    """

    template_fields: ClassVar[tuple[str, ...]] = ("output", "value_format", "key_format", "dead_letters")

    output: str
    _: KW_ONLY
    sink: SinkKind = "parquet"
    value_format: FormatName | ValueFormat = "binary"
    key_format: FormatName | ValueFormat = "binary"
    flatten: bool | str = False
    bad_records: BadRecords = "keep"
    dead_letters: str | None = None
    headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.output, str) or not self.output:
            raise ConfigurationError(f"TableLoad needs its output, a folder or a table's name, not {self.output!r}.")
        check_choice("sink", self.sink, *get_args(SinkKind))
        check_choice("bad_records", self.bad_records, *get_args(BadRecords))
        for name in ("min_partitions", "max_records_per_partition"):
            check_count(getattr(self, name), name, least=1)
        formats = self.formats
        if (self.bad_records == "dead-letter") != (self.dead_letters is not None):
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
        if self.bad_records != "keep" and all(each.name == "binary" for each in formats.values()):
            raise ConfigurationError(
                f"bad_records={self.bad_records!r} says nothing: key and value stay binary, so that nothing is decoded."
            )
        if self.flatten is not False and formats["value"].name in ("binary", "string"):
            raise ConfigurationError(
                f"flatten= needs values with fields, and value_format={formats['value'].name!r} has none."
            )

    @property
    def formats(self) -> dict[str, ValueFormat]:
        """The formats of key and value, by column.

        :raises ConfigurationError: one is unknown, or lacks what it needs.
        """
        with argument_named("key_format"):
            key = as_format(self.key_format)
        with argument_named("value_format"):
            return {"key": key, "value": as_format(self.value_format)}

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it needs packages for: its sink, and the formats of key and value."""
        return self.sink, *(each.name for each in self.formats.values())

    @property
    def registered(self) -> str | None:
        """The first of its formats that needs a schema registry; None if neither does."""
        return next((each.name for each in self.formats.values() if each.registered), None)

    def refuse_rendered(self, conn_id: str | None) -> None:
        """Refuse what templates have made of it; raises as when it was made, and as :meth:`refuse_without_registry`."""
        self.of_words(self.arguments())
        self.refuse_without_registry(conn_id)

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
        numbers = {
            "--min-partitions": self.min_partitions,
            "--max-records-per-partition": self.max_records_per_partition,
        }
        words = ["--output", self.output]
        words += ["--sink", self.sink] if self.sink != "parquet" else []
        for column, form in self.formats.items():
            words += [f"--{column}-format", *form.words()] if form.name != "binary" else []
        if self.flatten is not False:
            words += ["--flatten", *([] if self.flatten is True else [self.flatten])]
        if self.bad_records != "keep":
            words += ["--bad-records", self.bad_records, *([self.dead_letters] if self.dead_letters else [])]
        words += ["--headers"] if self.headers else []
        return words + [word for name, number in numbers.items() if number for word in (name, str(number))]

    @classmethod
    def of_words(cls, words: Sequence[str] | None) -> Self:
        """Read a command line, also as AWS Glue starts it; None takes the program's own. The program ends when it is
        malformed.

        :raises ConfigurationError: as for the arguments themselves.
        """
        parser = _parser()
        given, others = parser.parse_known_args(words)
        unknown = _without_glues(others)
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        how, *places = given.bad_records
        if len(places) > 1:
            parser.error(f"--bad-records takes one OUTPUT, not {' '.join(places)}")
        formats: dict[str, ValueFormat] = {}
        for argument in ("key_format", "value_format"):
            with argument_named(argument):
                formats[argument] = ValueFormat.of_words(getattr(given, argument))
        bad_records = {"bad_records": how, "dead_letters": places[0] if places else None}
        return cls(**{**vars(given), **formats, **bad_records})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="load.py", description="Load a pinned window of Kafka records into a table.")
    parser.add_argument(
        "--output",
        required=True,
        help="the table: its folder or its name, in which {topic} and {pipeline} stand for those; with {topic}, each "
        "topic has a table of its own",
    )
    parser.add_argument("--sink", choices=get_args(SinkKind), default="parquet", help="what it is; default: parquet")
    parser.add_argument(
        "--value-format",
        nargs="+",
        default=["binary"],
        metavar="FORMAT",
        help="what values are, default: binary; then what the format takes, as schema='id BIGINT, item STRING', "
        "subject=orders-value, version=3, message=shop.Order",
    )
    parser.add_argument(
        "--key-format", nargs="+", default=["binary"], metavar="FORMAT", help="what keys are: the same; default: binary"
    )
    parser.add_argument(
        "--flatten",
        nargs="?",
        const=True,
        default=False,
        metavar="PREFIX",
        help="the fields of the value become columns, so prefixed",
    )
    parser.add_argument(
        "--bad-records",
        nargs="+",
        default=["keep"],
        metavar="HOW",
        help="what can't be decoded: keep (default) it in its row, beside the reason; dead-letter OUTPUT: write it "
        "there as it was, in the kind of table of --sink; fail",
    )
    parser.add_argument("--headers", action="store_true", help="add the column headers")
    parser.add_argument("--min-partitions", type=int, help="split ranges into at least so many tasks; default: by plan")
    parser.add_argument("--max-records-per-partition", type=int, help="offsets that one task reads at most")
    return parser


def _without_glues(words: Sequence[str]) -> Sequence[str]:
    """The words that the parser doesn't know, except those that AWS Glue adds to every script's arguments."""
    if "--JOB_RUN_ID" not in words:
        return words
    names = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [name for name in names if name not in _GLUES and not name.startswith("--enable-")]
