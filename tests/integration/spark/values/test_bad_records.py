"""What becomes of records that can't be decoded: they are kept, or go elsewhere, or fail the load; none is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, RegistryError, RegistryUnreachableError, UndecodableError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from dev.ports import free_ports
from dev.schema_registry import SchemaRegistry
from tests.integration.registry_gate import RegistryGate
from tests.integration.spark.conftest import Pin
from tests.integration.spark.publishing import publish
from tests.unit.spark.manifests import manifest_of

AVRO = ("--value-format", "avro", "--key-format", "string")
BAD = {2: "it doesn't name its schema: it begins with no zero byte and id, and no header has one", 4: "it isn't UTF-8"}


@pytest.fixture
def fields() -> list[dict[str, str]]:
    return [{"name": "id", "type": "long"}]


@pytest.fixture
def manifest(
    topic_name: str, registry_client: SchemaRegistryClient, send: Callable[[Any], None], fields: list[dict[str, str]]
) -> Manifest:
    """Three good records, the first of them; a tombstone; a bad value; a bad key."""
    schema = json.dumps({"type": "record", "name": "Row", "fields": fields})
    write = AvroSerializer(registry_client, schema)
    value = {each["name"]: 7 for each in fields}
    good = write(value, SerializationContext(topic_name, MessageField.VALUE))
    send([(b"a", good, []), (b"b", None, []), (b"c", b"bad", []), (b"d", good, []), (b"\xff", good, [])])
    return manifest_of([(topic_name, 0, 0, 5)])


def test_dead_letters_are_another_output_of_the_same_window(
    spark: SparkSession, pin: Pin, manifest: Manifest, table: str, ledger: Path, run_load: Callable[..., Any]
) -> None:
    conf = pin(manifest)
    result = run_load(conf, "--output", table, *AVRO, "--flatten", "--bad-records", "dead-letter", f"{table}_dead")
    assert [(each.name, each.rows) for each in result.outputs] == [("", 3), ("dead letters", 2)]
    publish(PinnedWindow.open(spark, conf), result)
    rows = read_published(spark, ledger.as_uri()).orderBy("offset").collect()
    assert [(row.offset, row.id, row.tombstone) for row in rows] == [(0, 7, False), (1, None, True), (3, 7, False)]
    assert not {"value_error", "raw_value", "key_error", "raw_key"} & set(rows[0].asDict())
    dead = read_published(spark, ledger.as_uri(), output="dead letters").orderBy("offset").collect()
    assert {row.offset: row.value_error or row.key_error for row in dead} == BAD
    assert [bytes(row.key) for row in dead] == [b"c", b"\xff"]
    assert bytes(dead[0].value) == b"bad"


def test_fail_names_the_record_and_nothing_is_published(
    spark: SparkSession, pin: Pin, manifest: Manifest, table: str, topic_name: str, run_load: Callable[..., Any]
) -> None:
    conf = pin(manifest)
    said = rf"can't be decoded, the (value|key) of {topic_name}-0, offset (2|4): it .*[.] Nothing is published"
    with pytest.raises(UndecodableError, match=said):
        run_load(conf, "--output", table, *AVRO, "--bad-records", "fail")
    window = PinnedWindow.open(spark, conf)
    assert window.ledger is not None
    assert not window.ledger.attempt(window.manifest)[0].loaded


@pytest.mark.parametrize("fields", [[{"name": "id", "type": "long"}, {"name": "Offset", "type": "long"}]])
def test_a_field_of_the_name_of_a_column_is_refused_with_the_way_out(
    spark: SparkSession, pin: Pin, manifest: Manifest, table: str, run_load: Callable[..., Any]
) -> None:
    conf = pin(manifest)
    with pytest.raises(
        ConfigurationError, match=r"^flatten: The value has a field Offset, .* a prefix: flatten='value_'"
    ):
        run_load(conf, "--output", table, *AVRO, "--flatten")
    run_load(conf, "--output", table, *AVRO, "--flatten", "value_")
    rows = spark.read.parquet(f"{table}/*/*").orderBy("offset").collect()
    assert [row.value_Offset for row in rows] == [7, None, None, 7, 7]


class TestBeforeAnythingIsRead:
    def test_what_is_wrong_with_an_argument_begins_with_its_name(
        self, pin: Pin, manifest: Manifest, table: str, run_load: Callable[..., Any]
    ) -> None:
        with pytest.raises(ConfigurationError, match=r"^value: The schema 'no schema at, all' can't be"):
            run_load(pin(manifest), "--output", table, "--value-format", "json", "schema=no schema at, all")

    def test_what_the_registry_lacks_is_named(
        self, pin: Pin, manifest: Manifest, table: str, run_load: Callable[..., Any]
    ) -> None:
        conf = pin(manifest)
        with pytest.raises(RegistryError, match="has no subject nobodys-value"):
            run_load(conf, "--output", table, "--value-format", "avro", "subject=nobodys-value")
        with pytest.raises(RegistryError, match="has no version 9, but 1"):
            run_load(conf, "--output", table, "--value-format", "avro", "version=9")
        with pytest.raises(RegistryError, match="is of type AVRO, but the load decodes JSON"):
            run_load(conf, "--output", table, "--value-format", "json-schema")

    def test_a_registry_that_is_not_there_may_come_back(
        self, pin: Pin, manifest: Manifest, table: str, run_load: Callable[..., Any]
    ) -> None:
        (port,) = free_ports(1)
        with pytest.raises(RegistryUnreachableError, match=r"doesn't answer: .*refused") as failed:
            run_load(pin(manifest), "--output", table, *AVRO, url=f"http://127.0.0.1:{port}")
        assert failed.value.retriable

    @pytest.mark.parametrize("authorization", [None, "Bearer wrong"])
    def test_a_login_that_is_refused_is_named_and_never_shown(
        self,
        pin: Pin,
        manifest: Manifest,
        table: str,
        registry: SchemaRegistry,
        run_load: Callable[..., Any],
        authorization: str | None,
    ) -> None:
        options = {} if authorization is None else {"registry.authorization": authorization}
        with RegistryGate(registry.url, "Bearer right") as gate:
            with pytest.raises(RegistryError, match=r"\(HTTP 401\): Unauthorized") as failed:
                run_load(pin(manifest), "--output", table, *AVRO, url=gate.url, **options)
            assert len(gate.asked) == 1
        assert "wrong" not in str(failed.value)
        assert not failed.value.retriable
