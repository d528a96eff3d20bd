"""Typed rows: a window's keys and values decoded, by schemas from the registry that the run was given."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.used_schemas import UsedSchemas
from airflow_kafka_offsets.offsets.windows.kafka_source import topics_read
from airflow_kafka_offsets.spark.session.conf import REGISTRY
from airflow_kafka_offsets.spark.values.decoding import decode_column
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from airflow_kafka_offsets.spark.values.registry import RegistrySettings, SchemaRegistry
from airflow_kafka_offsets.spark.values.subjects import TOPIC, SubjectSchemas, subject_schemas
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead


def decode(window: PinnedRead, rows: DataFrame, formats: Mapping[str, ValueFormat]) -> DataFrame:
    """See :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.decode`.

    :param formats: by column: ``key``, ``value``.
    """
    registered = any(form.registered for form in formats.values())
    registry = _registry(window) if registered else None
    before = _before(window) if registered else {}
    for column, form in formats.items():
        schemas: SubjectSchemas | None = None
        if registry is not None and form.registered is not None:
            subjects = _subjects(window, column, form)
            schemas = subject_schemas(registry, form.registered, subjects, form.version, before.get(column))
            window.used_schemas[column] = schemas.used(column, subjects)
        rows = decode_column(rows, column, form, schemas)
    return rows


def _registry(window: PinnedRead) -> SchemaRegistry:
    settings = RegistrySettings.read(window.registry_options)
    if settings is None:
        raise ConfigurationError(
            "The run has no schema registry, which the format needs: give the pipeline one, KafkaPipeline(..., "
            f"schema_registry_conn_id=...), or set the conf {REGISTRY}url."
        )
    return SchemaRegistry(settings)


def _before(window: PinnedRead) -> dict[str, UsedSchemas]:
    """What decoded the window when it was loaded before, by column."""
    if window.ledger is None:
        return {}
    found, _ = window.ledger.attempt(window.manifest)
    return {used.column: used for used in window.ledger.schemas_before(found)}


def _subjects(window: PinnedRead, column: str, form: ValueFormat) -> list[str]:
    """The subjects of the topics that are read; of all of the window's, if it has no records."""
    topics = topics_read(window.manifest) or sorted(window.manifest.topics)
    name = form.subject or f"{TOPIC}-{column}"
    return list(dict.fromkeys(name.replace(TOPIC, topic) for topic in topics))
