"""Typed values: Avro and Protobuf by a schema registry, flattened into Parquet and proved, compared with ``from_avro``
of one fixed schema written by hand, which reads the same offsets in the same way, and proves nothing."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of
from airflow_kafka_offsets.spark.kafka.reader import FAST, exactly, kafka_source
from airflow_kafka_offsets.spark.load import Shaping
from airflow_kafka_offsets.spark.pinned import PinnedWindow, decoders, topics_together
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.table_load import TableLoad
from dev.schema_registry import SchemaRegistry
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.records import RECORD_BYTES, value
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import session, written
from tests.benchmarks.timing import medians
from tests.unit.spark import ledgers

AVRO, PROTOBUF = "typed-avro", "typed-protobuf"
_ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "quantity", "type": "int"}],
}
_ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        *({"name": name, "type": "string"} for name in ("order", "customer", "status", "currency", "store", "trace")),
        {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "total", "type": "double"},
        {"name": "items", "type": {"type": "array", "items": _ITEM}},
    ],
}
_OLDER = _ORDER | {"fields": [each for each in _ORDER["fields"] if each["name"] != "currency"]}  # type: ignore[index]


def typed_values(clusters: Clusters) -> Iterator[Row]:
    """Each side in turn, into a new folder; ours also into a new ledger."""
    address = clusters.records.bootstrap_servers
    folder = Path(tempfile.mkdtemp())
    session().sparkContext.pythonExec = sys.executable
    with SchemaRegistry() as registry:
        client = SchemaRegistryClient({"url": registry.url})
        counts = dict.fromkeys(range(8), clusters.sizes.records // 8)
        avro = written(clusters, AVRO, counts, _avro(client))
        protobuf = written(clusters, PROTOBUF, counts, _protobuf(client))
        works = {
            "avro": lambda: _ours(folder / "avro", avro, address, registry.url, "avro"),
            "by-hand": lambda: _by_hand(folder / "by-hand", avro, address),
            "protobuf": lambda: _ours(folder / "protobuf", protobuf, address, registry.url, "protobuf"),
        }
        clusters.say("loading them")
        try:
            taken = medians(works, clusters.sizes.rounds, lambda name: shutil.rmtree(folder / name, ignore_errors=True))
            rows = {name: session().read.parquet(_table(folder / name)).count() for name in works}
        finally:
            shutil.rmtree(folder)
    if set(rows.values()) != {avro.span}:
        raise AssertionError(f"{avro.span} records were to be written: {rows}")
    work = f"Avro by a registry, flattened into Parquet and proved, {avro.span:,} records of {RECORD_BYTES} bytes"
    peer = "from_avro by hand, one fixed schema, the same read: no proof"
    yield Row.compared(work, taken["avro"], peer, taken["by-hand"], limit=1.15)
    yield Row.compared("the same in Protobuf", taken["protobuf"], peer, taken["by-hand"], limit=None)


def _fields(partition: int, number: int, moment_ms: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(value(partition, number, moment_ms))
    return found


def _avro(client: SchemaRegistryClient) -> Any:
    """Makes values of the newer of two versions."""
    client.register_schema(f"{AVRO}-value", Schema(json.dumps(_OLDER), "AVRO"))
    number = client.register_schema(f"{AVRO}-value", Schema(json.dumps(_ORDER), "AVRO"))
    parsed, frame = fastavro.parse_schema(_ORDER), b"\x00" + number.to_bytes(4, "big")

    def content(*position: int) -> bytes:
        buffer = io.BytesIO(frame)
        buffer.seek(len(frame))
        fastavro.schemaless_writer(buffer, parsed, _fields(*position))
        return buffer.getvalue()

    return content


def _protobuf(client: SchemaRegistryClient) -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="bench", syntax="proto3")
    order = file.message_type.add(name="Order")
    for each in ("order", "customer", "status", "currency", "store", "trace"):
        order.field.add(name=each, number=len(order.field) + 1, type=kinds.TYPE_STRING, label=1)
    order.field.add(name="placed_at", number=7, type=kinds.TYPE_INT64, label=1)
    order.field.add(name="total", number=8, type=kinds.TYPE_DOUBLE, label=1)
    order.field.add(name="items", number=9, type=kinds.TYPE_MESSAGE, type_name=".bench.Item", label=3)
    item = file.message_type.add(name="Item")
    item.field.add(name="sku", number=1, type=kinds.TYPE_STRING, label=1)
    item.field.add(name="quantity", number=2, type=kinds.TYPE_INT32, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Order"))
    serialize = ProtobufSerializer(kind, client, {"auto.register.schemas": True, "use.deprecated.format": False})
    first = serialize(kind(), SerializationContext(PROTOBUF, MessageField.VALUE))
    assert first is not None
    frame = first[:6]  # of an empty message, only the frame is left
    return lambda *position: frame + kind(**_fields(*position)).SerializeToString()


def _ours(folder: Path, manifest: Manifest, address: str, registry: str, form: Any) -> None:
    ledger, kafka = ledgers.ledger_in(folder / "ledger"), {"kafka.bootstrap.servers": address}
    window = ledgers.pin(ledger, manifest)
    pinned, attempt = ledger.pinned(window), ledgers.begin(ledger, window)
    told = {"bytes_per_record": RECORD_BYTES, "registry": {"registry.url": registry}}
    opened = PinnedWindow.open(session(), RunConf(pinned.uri, pinned.sha256, attempt, kafka, **told))  # type: ignore[arg-type]
    table = TableLoad("o", value_format=form, flatten=True)
    shaping = Shaping(table, decoders(opened, table.formats, {"": topics_together(opened)})[""])
    opened.write(shaping.rows(opened.read(includeHeaders="true")), FileSink(_table(folder)))


def _by_hand(folder: Path, manifest: Manifest, address: str) -> None:
    """What somebody writes who knows that all values have one schema, and how to read fast."""
    named = {"kafka.bootstrap.servers": address, "failOnDataLoss": "true", **FAST, **exactly(left_of(manifest))}
    with kafka_source(session()):
        rows = session().read.format("kafka").options(**named).load()
        decoded = rows.withColumn("value", from_avro(F.expr("substring(value, 6)"), json.dumps(_ORDER)))
        decoded.select("value.*", *(name for name in rows.columns if name != "value")).write.parquet(_table(folder))


def _table(folder: Path) -> str:
    return (folder / "table").as_uri()
