"""JSON Schema: the type of a column that holds what a schema describes, and decoding into it by Spark's ``from_json``.

Only types are taken from a schema; what else it demands (patterns, limits, required fields) isn't checked. What Spark
has no type for (one of several types, an object without properties, a type within itself) becomes the JSON's text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from airflow_kafka_offsets.compat.spark_versions import valid_text
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema
from airflow_kafka_offsets.spark.values.subjects import SubjectSchemas

CORRUPT = "_corrupt_record"
"""Field that is added to a type for a moment, for the text of what doesn't fit it."""
_SCALARS: Mapping[str, type[DataType]] = {
    "string": StringType,
    "integer": LongType,
    "number": DoubleType,
    "boolean": BooleanType,
}


def type_of(schemas: SubjectSchemas) -> StructType:
    """The type of a column with what the reader's schema describes.

    :raises ConfigurationError: it isn't an object with properties.
    """
    reader = schemas.reader
    kind = _Types(_parsed(reader), {n: _parsed(s) for n, s in schemas.referenced[reader.id].items()}).of_whole()
    if not isinstance(kind, StructType):
        raise ConfigurationError(
            f"The JSON Schema with id {reader.id} describes no object with properties, so there is no type for a "
            "column. Load it as text (value_format='string')."
        )
    return kind


def parsed(payload: Column, kind: StructType) -> Column:
    """A struct of JSON in bytes, with one field more for the text of what doesn't fit the type; null for what isn't
    text, and for blank text."""
    whole = StructType([*kind.fields, StructField(CORRUPT, StringType())])
    return F.from_json(valid_text(payload), whole, {"columnNameOfCorruptRecord": CORRUPT})


def _parsed(schema: RegisteredSchema) -> Any:
    try:
        return json.loads(schema.text)
    except ValueError:
        raise ConfigurationError(f"The schema with id {schema.id} isn't JSON: {schema.text[:100]}.") from None


class _Types:
    """Spark's types for the parts of one schema.

    :param documents: what it may refer to, by the names that it calls them.
    """

    def __init__(self, whole: Any, documents: Mapping[str, Any]) -> None:
        self._whole = whole
        self._documents = dict(documents)
        self._documents |= {str(each["$id"]): each for each in (whole, *documents.values()) if _has_id(each)}

    def of_whole(self) -> DataType:
        return self._type(self._whole, self._whole, ())

    def _type(self, schema: Any, root: Any, within: tuple[str, ...]) -> DataType:
        """The type of a part.

        :param root: the document that it is in.
        :param within: the references that led to it.
        """
        if not isinstance(schema, dict):
            return StringType()
        if "$ref" in schema:
            return self._referred(str(schema["$ref"]), root, within)
        if "allOf" in schema:
            return self._all(schema, root, within)
        for several in ("oneOf", "anyOf"):
            if several in schema:
                return self._only([part for part in schema[several] if not _is_null(part)], root, within)
        kinds = schema.get("type", "object" if "properties" in schema else None)
        kinds = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else [kinds]
        if kinds == ["array"]:
            return ArrayType(self._type(schema.get("items"), root, within))
        if kinds == ["object"]:
            return self._object(schema, root, within)
        return _SCALARS[kinds[0]]() if len(kinds) == 1 and kinds[0] in _SCALARS else StringType()

    def _object(self, schema: Mapping[str, Any], root: Any, within: tuple[str, ...]) -> DataType:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            return StructType([StructField(name, self._type(one, root, within)) for name, one in properties.items()])
        return MapType(StringType(), self._type(others, root, within)) if isinstance(others, dict) else StringType()

    def _only(self, parts: list[Any], root: Any, within: tuple[str, ...]) -> DataType:
        return self._type(parts[0], root, within) if len(parts) == 1 else StringType()

    def _all(self, schema: Mapping[str, Any], root: Any, within: tuple[str, ...]) -> DataType:
        """All of several objects at once: their fields together."""
        own = {name: part for name, part in schema.items() if name != "allOf"}
        parts = [*schema["allOf"], *([own] if "properties" in own else [])]
        kinds = [self._type(part, root, within) for part in parts]
        fields = {field.name: field for kind in kinds if isinstance(kind, StructType) for field in kind}
        if len(kinds) == 1:
            return kinds[0]
        return (
            StructType(list(fields.values())) if all(isinstance(kind, StructType) for kind in kinds) else StringType()
        )

    def _referred(self, reference: str, root: Any, within: tuple[str, ...]) -> DataType:
        place, _, path = reference.partition("#")
        document = root if not place else self._documents.get(place)
        if document is None or reference in within:  # Spark has no type that contains itself
            return StringType()
        found = document
        for step in filter(None, unquote(path).split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
        return self._type(found, document, (*within, reference))


def _has_id(document: Any) -> bool:
    return isinstance(document, dict) and "$id" in document


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"
