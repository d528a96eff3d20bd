"""Avro: Spark's own ``from_avro`` decodes each record by the schema that it was written with, as the reader's type.

That is Avro's schema resolution, in Java: no Python sees a record. Before, schemas that others refer to are put where
they are named, as ``from_avro`` takes one text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column, functions as F
from pyspark.sql.avro.functions import from_avro

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.values.framing import Frame, names_of
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema
from airflow_kafka_offsets.spark.values.subjects import SubjectSchemas

VALUE, DECODED = "value", "decoded"
"""The fields of what :func:`decoded` makes."""
_AROUND = "KafkaOffsetsValue"
_PRIMITIVE = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = {"record", "error", "enum", "fixed"}


def decoded(frame: Frame, schemas: SubjectSchemas) -> Column:
    """A struct with the value, and whether it could be decoded; null if no schema of the window is named.

    A record is put around the schemas, which takes no bytes: ``from_avro`` makes a struct of nulls of what it can't
    decode, which might be a value too. The reader's has a second field, that Avro fills in if there was no error.
    """
    texts = {each.id: whole(each, schemas.referenced[each.id]) for each in schemas.writers}
    reader = texts[schemas.reader.id]
    # Producers write the calendar that Avro's rules name; Spark 3.5 would refuse dates before 1582.
    options = {"mode": "PERMISSIVE", "avroSchema": _around(reader, is_reader=True), "datetimeRebaseMode": "CORRECTED"}
    branches = [
        (frame.schema.isin(*names_of(writer)), from_avro(frame.payload, _around(texts[writer.id]), options))
        for writer in schemas.writers
        if _may_be_read(texts[writer.id], reader)
    ]
    (known, first), *others = branches
    return reduce(lambda column, branch: column.when(*branch), others, F.when(known, first))


def _may_be_read(writer: Any, reader: Any) -> bool:
    """Whether two schemas aren't records of different names: Avro's rules forbid that, but Java would read any as any,
    if the fields that differ have defaults."""
    if not (_is_record(writer) and _is_record(reader)):
        return True
    names = (str(name).rpartition(".")[2] for name in (reader["name"], *reader.get("aliases", ())))
    return str(writer["name"]).rpartition(".")[2] in names


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] == "record"


def _around(schema: Any, *, is_reader: bool = False) -> str:
    """A record with a single field, which Avro encodes as the field alone; and one that only the reader has."""
    fields: list[dict[str, Any]] = [{"name": VALUE, "type": schema}]
    if is_reader:
        fields.append({"name": DECODED, "type": "boolean", "default": True})
    return json.dumps({"type": "record", "name": _AROUND, "fields": fields})


def whole(schema: RegisteredSchema, referenced: Mapping[str, RegisteredSchema]) -> Any:
    """A schema as JSON, with the schemas that it refers to in the places where each is first named.

    :raises ConfigurationError: it isn't JSON.
    """
    # A reference's own name is only a label: what other schemas use are the names that its text defines.
    parsed = {_full_name(part): part for part in map(_parsed, referenced.values()) if isinstance(part, dict)}
    return _Filling(parsed).fill(_parsed(schema), None)


def _parsed(schema: RegisteredSchema) -> Any:
    try:
        return json.loads(schema.text)
    except ValueError:
        if schema.text in _PRIMITIVE:  # some registries keep a bare word
            return schema.text
        raise ConfigurationError(f"The schema with id {schema.id} isn't Avro's JSON: {schema.text[:100]}.") from None


def _full_name(schema: Mapping[str, Any], enclosing: str | None = None) -> str:
    name, namespace = str(schema["name"]), schema.get("namespace", enclosing)
    return name if "." in name or not namespace else f"{namespace}.{name}"


class _Filling:
    """Puts named schemas where they are first named; later, Avro knows their names."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._filled: set[str] = set()

    def fill(self, schema: Any, namespace: str | None) -> Any:
        if isinstance(schema, str):
            return self._of_name(schema, namespace)
        if isinstance(schema, list):
            return [self.fill(each, namespace) for each in schema]
        if not (isinstance(schema["type"], str) and schema["type"] in _NAMED):
            inner = {key: self.fill(schema[key], namespace) for key in ("items", "values") if key in schema}
            kind = schema["type"]
            return schema | inner | ({} if kind in ("array", "map") else {"type": self.fill(kind, namespace)})
        full = _full_name(schema, namespace)
        self._filled.add(full)
        within = full.rpartition(".")[0] or None
        fields = [field | {"type": self.fill(field["type"], within)} for field in schema.get("fields", ())]
        return schema | ({"fields": fields} if "fields" in schema else {})

    def _of_name(self, name: str, namespace: str | None) -> Any:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self._named else name
        if name in _PRIMITIVE or full not in self._named or full in self._filled:
            return name
        found = self._named[full]
        # Without a namespace of its own, it would take that of the record it is now in.
        own = {} if "." in str(found["name"]) or "namespace" in found else {"namespace": ""}
        return self.fill(found | own, None)
