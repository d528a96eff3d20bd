"""The schemas that decode a window's keys or values: all versions of their subjects, and the one that rows are read as.

All are fetched before anything is read: whoever wrote a record had registered its schema by then. Which they were is
kept with the window's result, so that loading it again gives its column the same type.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError, RegistryError
from airflow_kafka_offsets.offsets.proof.run_result import UsedSchemas
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema, SchemaRegistry

AT_ONCE = 8
"""Requests, and so topics, at once."""
TOPIC = "{topic}"
"""Stands for each topic's name in the name of a subject."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of one column.

    :param leading: those whose newest version the column has: one for each topic that is read into it. Several have to
        agree.
    :param names: all of them, the leading ones first. Records may be written with any of their versions.
    """

    leading: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, templates: Sequence[str], topics: Sequence[str]) -> Self:
        """The subjects of some topics, by names in which :data:`TOPIC` stands for the topic's."""
        named = [[template.replace(TOPIC, topic) for topic in topics] for template in templates]
        return cls(tuple(dict.fromkeys(named[0])), tuple(dict.fromkeys(chain.from_iterable(named))))

    def decoded(self, used: UsedSchemas, column: str, kind: str) -> bool:
        """Whether it was these subjects' schemas that a column was decoded with."""
        return (used.column, used.kind, used.subjects) == (column, kind, self.names)


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

    def used(self, column: str, subjects: Subjects) -> UsedSchemas:
        """What the window's result says of them."""
        return UsedSchemas(
            column=column,
            kind=self.reader.kind,
            subjects=subjects.names,
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
    subjects: Subjects,
    version: int | None,
    before: UsedSchemas | None,
) -> SubjectSchemas:
    """Fetch the schemas of some subjects.

    :param kind: what they have to be, as in :class:`.registry.RegisteredSchema`.
    :param version: number of the version that rows are read as; None for the one that ``before`` names, or the newest.
    :param before: what decoded the window by these subjects when it was loaded before; None if nothing did.
    :raises ConfigurationError: the newest versions of several leading subjects differ, or ``version`` is of one among
        several.
    :raises RegistryError: the registry lacks or refuses something, or has another text under an id than before.
    :raises RegistryUnreachableError: it doesn't answer.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        numbers = dict(zip(subjects.names, pool.map(registry.versions, subjects.names), strict=True))
        pairs = [(subject, number) for subject, (every, _) in numbers.items() for number in every]
        fetched = pool.map(lambda pair: registry.version(pair[0], pair[1], kind), pairs)
        found = dict(zip(pairs, fetched, strict=True))
    writers = {schema.id: schema for schema in found.values()}
    if version is not None:
        reader = _of_version(subjects.leading, {subject: numbers[subject][0] for subject in subjects.leading}, version)
        read_as = found[reader]
    elif before is not None:
        for number in map(int, before.hashes):
            if number not in writers:
                writers[number] = registry.by_id(number, kind)
        read_as = writers[before.reader]
    else:
        read_as = _newest({subject: found[subject, numbers[subject][1][-1]] for subject in subjects.leading})
    referenced = {number: dict(_referenced(registry, schema)) for number, schema in writers.items()}
    schemas = SubjectSchemas(read_as, [writers[number] for number in sorted(writers)], referenced)
    if before is not None and version is None:
        _refuse_changed(schemas, before)
    return schemas


def _of_version(leading: Sequence[str], numbers: Mapping[str, Sequence[int]], version: int) -> tuple[str, int]:
    if len(leading) > 1:
        raise ConfigurationError(
            f"version={version} says nothing, as the window's topics have {len(leading)} subjects: "
            f"{', '.join(leading)}. Name one with subject=, or give each topic a table of its own."
        )
    (subject,) = leading
    if version not in numbers[subject]:
        there = ", ".join(map(str, numbers[subject]))
        raise RegistryError(f"Subject {subject} of the schema registry has no version {version}, but {there}.")
    return subject, version


def _newest(newest: Mapping[str, RegisteredSchema]) -> RegisteredSchema:
    if len({schema.id for schema in newest.values()}) > 1:
        raise ConfigurationError(
            f"The window's topics have values of different types: the newest versions of {', '.join(newest)} differ, "
            "and a column has one type. Give each topic a table of its own ({topic} in the output's name), or name one "
            "subject for all (subject=)."
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
            "(version=) to go on with this one."
        )
