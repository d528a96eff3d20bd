"""The schemas that decode a window's keys or values: all versions of their subjects, and the one that rows are read as.

All are fetched before anything is read: whoever wrote a record had registered its schema by then. Which they were is
kept with the window's result, so that loading it again gives its column the same type.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError, RegistryError
from airflow_kafka_offsets.offsets.proof.used_schemas import UsedSchemas
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema, SchemaRegistry

_AT_ONCE = 8
TOPIC = "{topic}"
"""Stands for each topic's name in the name of a subject."""


@dataclass(frozen=True, slots=True)
class SubjectSchemas:
    """What decodes one column.

    :param reader: the schema that rows are read as.
    :param writers: all that records may be written with, by id.
    :param referenced: by name, what these refer to, directly or not, each after those that it refers to itself.
    """

    reader: RegisteredSchema
    writers: Sequence[RegisteredSchema]
    referenced: Mapping[int, Mapping[str, RegisteredSchema]]

    def used(self, column: str, subjects: Collection[str]) -> UsedSchemas:
        """What the window's result says of them."""
        return UsedSchemas(
            column=column,
            kind=self.reader.kind,
            subjects=tuple(subjects),
            reader=self.reader.id,
            hashes={str(each.id): self.hash_of(each) for each in self.writers},
        )

    def hash_of(self, schema: RegisteredSchema) -> str:
        """A hash of a schema and of all that it refers to."""
        texts = [schema.text, *([name, each.text] for name, each in self.referenced[schema.id].items())]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def subject_schemas(
    registry: SchemaRegistry,
    kind: str,
    subjects: Sequence[str],
    version: int | None,
    before: UsedSchemas | None,
) -> SubjectSchemas:
    """Fetch the schemas of some subjects.

    :param kind: what they have to be, as in :class:`.registry.RegisteredSchema`.
    :param version: number of the version that rows are read as; None for the one that ``before`` names, or the newest.
    :param before: what decoded the window when it was loaded before; None if it wasn't.
    :raises ConfigurationError: the newest versions of several subjects differ, or ``version`` is of one among several.
    :raises RegistryError: the registry lacks or refuses something, or has another text under an id than before.
    :raises RegistryUnreachableError: it doesn't answer.
    """
    found = {subject: _all_versions(registry, kind, subject) for subject in subjects}
    current = {subject: registry.versions(subject)[1][-1] for subject in subjects}
    writers = {schema.id: schema for schemas in found.values() for schema in schemas}
    same = before is not None and before.kind == kind and before.subjects == tuple(subjects)
    if before is not None and same:
        for number in map(int, before.hashes):
            writers.setdefault(number, registry.by_id(number, kind))
    if version is not None:
        reader = _of_version(found, version)
    elif before is not None and same:
        reader = writers[before.reader]
    else:
        reader = _newest({subject: _version(found[subject], number) for subject, number in current.items()})
    referenced = {number: dict(_referenced(registry, schema)) for number, schema in writers.items()}
    schemas = SubjectSchemas(reader, [writers[number] for number in sorted(writers)], referenced)
    if before is not None and same:
        _refuse_changed(schemas, before)
    return schemas


def _all_versions(registry: SchemaRegistry, kind: str, subject: str) -> list[RegisteredSchema]:
    numbers, _ = registry.versions(subject)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda number: registry.version(subject, number, kind), numbers))


def _version(schemas: Sequence[RegisteredSchema], version: int) -> RegisteredSchema:
    return next(schema for schema in schemas if schema.version == version)


def _of_version(found: Mapping[str, Sequence[RegisteredSchema]], version: int) -> RegisteredSchema:
    if len(found) > 1:
        raise ConfigurationError(
            f"value_version={version} says nothing, as the window's topics have {len(found)} subjects: "
            f"{', '.join(found)}. Name one with value_subject=, or load each topic by a pipeline of its own."
        )
    ((subject, schemas),) = found.items()
    named = next((schema for schema in schemas if schema.version == version), None)
    if named is None:
        there = ", ".join(str(schema.version) for schema in schemas)
        raise RegistryError(f"Subject {subject} of the schema registry has no version {version}, but {there}.")
    return named


def _newest(newest: Mapping[str, RegisteredSchema]) -> RegisteredSchema:
    if len({schema.id for schema in newest.values()}) > 1:
        raise ConfigurationError(
            f"The window's topics have values of different types: the newest versions of {', '.join(newest)} differ, "
            "and a column has one type. Load each topic by a pipeline of its own, or name one subject for all "
            "(value_subject=)."
        )
    return next(iter(newest.values()))


def _referenced(registry: SchemaRegistry, schema: RegisteredSchema) -> Iterator[tuple[str, RegisteredSchema]]:
    for each in schema.references:
        found = registry.version(each.subject, each.version, schema.kind)
        yield from _referenced(registry, found)
        yield each.name, found


def _refuse_changed(schemas: SubjectSchemas, before: UsedSchemas) -> None:
    hashes = {each.id: (before.hashes.get(str(each.id)), schemas.hash_of(each)) for each in schemas.writers}
    changed = [number for number, (then, now) in hashes.items() if then not in (None, now)]
    if changed:
        raise RegistryError(
            f"The schema with id {changed[0]} isn't the one that decoded this window's {before.column} before, though "
            "what is registered under an id never changes: is this another registry? Name the version to read as "
            "(value_version=) to go on with this one."
        )
