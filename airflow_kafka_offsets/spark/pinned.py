"""The pinned window: what a Spark job reads, and writes with a proof.

A sink replaces the window's rows in one step. The rows read are compared with the rows written and with the manifest,
and Kafka is asked whether they came from the window's own topics. The outcome goes into one file of this driver's own.
Airflow's side publishes it: nothing here decides which rows count.

A Spark Connect client can't ask Kafka: it returns its counts, and Airflow's side asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.compat.spark_versions import confs_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, UsedSchemas
from airflow_kafka_offsets.offsets.windows.manifest import topics_read
from airflow_kafka_offsets.spark.session.conf import ALLOW_GAPS, ATTEMPT, COMMIT, MANIFEST, REGISTRY, SHA256, RunConf
from airflow_kafka_offsets.spark.sinks.sink import Sink
from airflow_kafka_offsets.spark.values.decoding import decode_column
from airflow_kafka_offsets.spark.values.formats import ValueFormat, argument_named, as_format
from airflow_kafka_offsets.spark.values.registry import RegistrySettings, SchemaRegistry, registry_of
from airflow_kafka_offsets.spark.values.subjects import AT_ONCE, TOPIC, Subjects, SubjectSchemas, subject_schemas
from airflow_kafka_offsets.spark.window.derived import Derived, Transform, write_derived
from airflow_kafka_offsets.spark.window.kept_records import parts_of, write_records
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead


class PinnedWindow(PinnedRead):
    """A window that a Spark session can read and write."""

    def decode(
        self,
        rows: DataFrame,
        *,
        key: ValueFormat | str = "binary",
        value: ValueFormat | str = "binary",
        topic: str | None = None,
    ) -> DataFrame:
        """Decode key and value. What can't be decoded stays: the column is then null, ``value_error`` (or
        ``key_error``) says why, and ``raw_value`` has the bytes. A tombstone is null, without an error.

        Formats with a registry take its schemas before anything is read. Each record is decoded by the one that it
        names, as the newest version of the subject; if the window was loaded before, as the version of that time.
        Beside the column, ``value_schema_id`` is the id of the record's schema. The window's result names all of
        them::

            rows = window.read(includeHeaders="true")
            orders = window.decode(rows, key="string", value="avro")

        :param rows: what :meth:`read` returned, or what a transform of :meth:`write_derived` got; with the headers, if
            a format has a registry.
        :param key: a format's name, or a :class:`~airflow_kafka_offsets.spark.values.formats.ValueFormat`.
        :param value: the same.
        :param topic: the only topic that the rows are of; None for all. A column has one type, so topics whose values
            have different ones are decoded apart.
        :raises ConfigurationError: the run has no registry, rows lack their headers, or a schema makes no column.
        :raises RegistryError: the registry refuses the login, or lacks a subject or version.
        :raises RegistryUnreachableError: it doesn't answer.
        """
        formats = {"key": as_format(key), "value": as_format(value)}
        with self.failures_noted():
            return decoders(self, formats, {"": topics_together(self) if topic is None else [topic]})[""](rows)

    def write(self, rows: DataFrame, sink: Sink) -> RunResult:
        """Write the window's rows and prove them; Airflow's side publishes them afterwards.

        If another driver that was started for this attempt has proved the window already, nothing is read from Kafka
        and nothing is written, and that driver's counts are returned. A window without offsets is written without rows
        (S6); old rows in the sink are removed.

        :param rows: what :meth:`read` returned, or rows made from it. Each row must still be there exactly once, with
            its topic, partition and offset. Otherwise the proof fails: filter and aggregate after publication.
        :param sink: where the rows go.
        :returns: what was read and written, proved.
        :raises ConfigurationError: the session has no attempt at the window, or has written it before; the sink has no
            kind or can't be written; or a column is missing or its name is reserved.
        :raises DataLossError: Kafka no longer has all records of the window.
        :raises TopicChangedError: before or after the read, this was another cluster, or a topic was re-created.
        :raises UncheckedSourceError: Kafka can't be asked for these two checks.
        :raises ExtremeTimestampError: a record has a timestamp that Spark can't read.
        :raises UnprovenError: what was read or written isn't the window, so it can't be published; the rows stay for
            inspection. It is a :class:`CountedTwiceError` if another try may prove it.
        :raises LedgerConflictError: another attempt is published, the window was voided or resolved anew, or the sink
            or the window's folder belongs to another ledger.
        :raises CommitConflictError: a later attempt has begun, or another commit to the table came in between.
        """
        with self.failures_noted():
            return write_records(self, rows, parts_of(self, sink))

    def write_derived(
        self,
        transform: Transform,
        sink: Sink,
        *,
        options: Mapping[str, str] | None = None,
        **further: Derived,
    ) -> RunResult:
        """Let a transform make other rows from the window's records (filter, explode, join, aggregate), write them, and
        prove that it got each record once. Airflow's side then publishes them.

        The proof covers which records the transform got, not what it makes of them: Kafka is read once, to the
        executors' disks, and the records there are compared with the window. The rows are counted as they are written,
        and again in the output. Several outputs are published together. The first output is written last, so that a
        reader of its table never sees it without the others::

            window.write_derived(
                flights_per_hour,
                DeltaSink("lake.flights_per_hour"),
                unreadable=Derived(unreadable, DeltaSink("lake.unreadable_flights")),
            )

        If another driver of this attempt has proved the window, nothing is done, as with :meth:`write`. If the window
        has no offsets, the outputs hold no rows, even if the transform makes rows from an empty frame.

        :param transform: makes the rows from a frame with the columns of Spark's Kafka source.
        :param sink: where the rows go. Each gets the window's name in the column ``window``.
        :param options: options of Spark's Kafka source, as for :meth:`read`.
        :param further: more outputs, by name (not ``transform``, ``sink`` or ``options``); ``read_published(...,
            output=name)`` reads them.
        :returns: what was read and written, proved.
        :raises ConfigurationError: a column name is reserved, two outputs go to the same place, or the session is a
            Spark Connect client.
        :raises KafkaOffsetsError: as :meth:`write`, for the same reasons.
        """
        outputs = {"": Derived(transform, sink), **further}
        with self.failures_noted():
            return write_derived(self, outputs, options or {})


def pinned_window(
    spark: SparkSession,
    manifest_uri: str | None = None,
    sha256: str | None = None,
    attempt: int | None = None,
    *,
    allow_gaps: bool | None = None,
) -> PinnedWindow:
    """The window that a Spark job is to read.

    By default it is the window that this job was submitted for, taken from its confs (see
    :mod:`airflow_kafka_offsets.spark.session.conf`). Elsewhere, such as in a notebook or under Spark Connect, pass the
    manifest and its hash, which ``KafkaResolveWindowOperator`` returns; the brokers then come from confs or from
    ``read()``'s options.

    :param spark: the session, which may be a Spark Connect client.
    :param manifest_uri: URI of the window's manifest.
    :param sha256: hex digest that its bytes must have.
    :param attempt: number of the attempt at this window that the driver makes, as ``KafkaPrepareLoadOperator`` and
        ``kafka-offsets ledger begin`` begin it. None takes the conf, if it is this manifest's. Without an attempt, the
        window can be read, but not written.
    :param allow_gaps: expect offsets without a record, as transactions leave them; None takes the conf.
    :raises ConfigurationError: when a conf is missing or malformed.
    :raises LedgerCorruptError: when the manifest isn't the one that was pinned.
    :raises LedgerConflictError: when the attempt can't be published any more.
    """
    confs = confs_of(spark)
    if manifest_uri is not None and manifest_uri != confs.get(MANIFEST):
        confs = {name: value for name, value in confs.items() if name not in (ATTEMPT, COMMIT)}
    given = {
        MANIFEST: manifest_uri,
        SHA256: sha256,
        ATTEMPT: None if attempt is None else str(attempt),
        ALLOW_GAPS: None if allow_gaps is None else str(allow_gaps).lower(),
    }
    confs |= {name: value for name, value in given.items() if value is not None}
    return PinnedWindow.open(spark, RunConf.read(confs, os.environ))


Decoder: TypeAlias = Callable[[DataFrame], DataFrame]
"""Decodes records. What it needs of a registry was fetched when it was made."""


def topics_together(window: PinnedRead) -> Sequence[str]:
    """The topics that have a say in the type of a column for all of them: those that are read. Of a window without
    records, all: what is written has their columns."""
    return topics_read(window.manifest) or sorted(window.manifest.topics)


def decoders(
    window: PinnedRead, formats: Mapping[str, ValueFormat], topics: Mapping[str, Sequence[str]]
) -> dict[str, Decoder]:
    """What decodes the records of some topics; see :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.decode`.
    What is said of a column begins with its name.

    :param formats: by column: ``key``, ``value``.
    :param topics: by name, the topics that are decoded alike.
    """
    registered = {column: form for column, form in formats.items() if form.registered}
    if not registered:
        return dict.fromkeys(topics, partial(_decode, formats, {}))
    registry, before = _registry(window), _before(window)

    def make(names: Sequence[str]) -> Decoder:
        schemas: dict[str, SubjectSchemas] = {}
        for column, form in registered.items():
            subjects = Subjects.of(form.subjects or (f"{TOPIC}-{column}",), names)
            then = next((used for used in before if subjects.decoded(used, column, str(form.registered))), None)
            with argument_named(column):
                schemas[column] = subject_schemas(registry, str(form.registered), subjects, form.version, then)
            window.used_schemas[column, subjects.names] = schemas[column].used(column, subjects)
        return partial(_decode, formats, schemas)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(topics, pool.map(make, topics.values()), strict=True))


def _decode(formats: Mapping[str, ValueFormat], schemas: Mapping[str, SubjectSchemas], rows: DataFrame) -> DataFrame:
    for column, form in formats.items():
        with argument_named(column):
            rows = decode_column(rows, column, form, schemas.get(column))
    return rows


def _registry(window: PinnedRead) -> SchemaRegistry:
    settings = RegistrySettings.read(window.registry_options)
    if settings is None:
        raise ConfigurationError(
            "The run has no schema registry, which the format needs: give the pipeline one, KafkaPipeline(..., "
            f"schema_registry_conn_id=...), or set the conf {REGISTRY}url."
        )
    return registry_of(settings)


def _before(window: PinnedRead) -> tuple[UsedSchemas, ...]:
    """What decoded the window when it was loaded before."""
    if window.ledger is None:
        return ()
    return window.ledger.schemas_before(window.ledger.attempt(window.manifest)[0])
