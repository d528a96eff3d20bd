"""Which schemas decode a window's column: those of its subjects, and those of the time when it was loaded before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError, RegistryError
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema
from airflow_kafka_offsets.spark.values.subjects import Subjects, SubjectSchemas, subject_schemas


class Registry:
    """A registry in memory.

    :param subjects: the ids of each one's versions.
    """

    def __init__(self, subjects: Mapping[str, Sequence[int]], **texts: str) -> None:
        self._subjects = subjects
        self._texts = texts

    def versions(self, subject: str) -> tuple[list[int], list[int]]:
        numbers = list(range(1, len(self._subjects[subject]) + 1))
        return numbers, numbers

    def version(self, subject: str, version: int, kind: str) -> RegisteredSchema:
        return replace(self.by_id(self._subjects[subject][version - 1], kind), version=version)

    def by_id(self, number: int, kind: str) -> RegisteredSchema:
        return RegisteredSchema(number, None, None, kind, self._texts.get(f"_{number}", f'"{number}"'))


def fetch(registry: Registry, subjects: Subjects, version: int | None = None, before: Any = None) -> SubjectSchemas:
    return subject_schemas(registry, "AVRO", subjects, version, before)  # type: ignore[arg-type]


def ids(schemas: SubjectSchemas) -> tuple[int, list[int]]:
    return schemas.reader.id, [each.id for each in schemas.writers]


def test_several_subjects_of_a_topic_are_read_as_the_first() -> None:
    """As when producers have changed the way in which they name subjects."""
    registry = Registry({"orders-value": [1, 4], "com.example.Order": [4, 9, 12]})
    subjects = Subjects.of(("{topic}-value", "com.example.Order"), ["orders"])
    assert ids(fetch(registry, subjects)) == (4, [1, 4, 9, 12])
    assert ids(fetch(registry, subjects, version=1)) == (1, [1, 4, 9, 12])


def test_topics_that_are_read_into_one_column_have_to_agree() -> None:
    registry = Registry({"a-value": [1, 2], "b-value": [2], "c-value": [3]})
    assert ids(fetch(registry, Subjects.of(("{topic}-value",), ["a", "b"]))) == (2, [1, 2])
    several = Subjects.of(("{topic}-value",), ["a", "b", "c"])
    with pytest.raises(ConfigurationError, match=r"the newest versions of a-value, b-value, c-value differ"):
        fetch(registry, several)
    with pytest.raises(ConfigurationError, match="says nothing, as the window's topics have 3 subjects"):
        fetch(registry, several, version=1)


class TestLoadingAgain:
    subjects = Subjects.of(("s",), ["t"])

    def test_reads_as_before_also_by_a_version_that_the_subject_has_lost(self) -> None:
        before = fetch(Registry({"s": [1, 2]}), self.subjects).used("value", self.subjects)
        assert ids(fetch(Registry({"s": [1, 3]}), self.subjects, before=before)) == (2, [1, 2, 3])

    def test_another_registry_is_refused_until_a_version_of_it_is_named(self) -> None:
        before = fetch(Registry({"s": [1, 2]}), self.subjects).used("value", self.subjects)
        other = Registry({"s": [1, 2]}, _2='"int"')
        with pytest.raises(RegistryError, match=r"id 2 isn't the one .* is this another registry\? Name the version"):
            fetch(other, self.subjects, before=before)
        assert ids(fetch(other, self.subjects, version=2, before=before)) == (2, [1, 2])
