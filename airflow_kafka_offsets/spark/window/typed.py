"""Typed rows: a window's keys and values decoded, by schemas from the registry that the run was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.run_result import UsedSchemas
from airflow_kafka_offsets.offsets.windows.kafka_source import topics_read
from airflow_kafka_offsets.spark.session.conf import REGISTRY
from airflow_kafka_offsets.spark.values.decoding import decode_column
from airflow_kafka_offsets.spark.values.formats import ValueFormat, argument_named
from airflow_kafka_offsets.spark.values.registry import RegistrySettings, SchemaRegistry, registry_of
from airflow_kafka_offsets.spark.values.subjects import AT_ONCE, TOPIC, Subjects, SubjectSchemas, subject_schemas
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead

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
