"""Partitions, and the container in which everything that is known per partition comes.

Each noun of this package has an element (one partition) and a container (many). All containers offer the same few
helpers, so that a partial failure is data until somebody asks for it to be raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from airflow_kafka_offsets.errors import OffsetsError, ResponseError


class TopicPartition(NamedTuple):
    """A partition of a topic. Sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionElement(Protocol):
    """What a container holds: something about one partition, or the error that came instead."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def error(self) -> ResponseError | None: ...


E = TypeVar("E", bound=PartitionElement)


class PartitionMap(Generic[E]):
    """Elements by partition; iterates in order of topic and partition."""

    asked: ClassVar[str] = "The request"
    """What was asked, in words, for the message of ``raise_for_errors``."""

    __slots__ = ("_elements",)

    def __init__(self, elements: Iterable[E] = ()) -> None:
        self._elements = {TopicPartition(each.topic, each.partition): each for each in elements}

    def __iter__(self) -> Iterator[E]:
        return (self._elements[key] for key in sorted(self._elements))

    def __len__(self) -> int:
        return len(self._elements)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._elements

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._elements == self._elements

    __hash__ = None  # type: ignore[assignment]  # containers are compared in tests, never used as keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def lookup(self, topic: str, partition: int) -> E | None:
        """The element of one partition; None when it isn't part of the answer."""
        return self._elements.get(TopicPartition(topic, partition))

    def partitions(self) -> list[TopicPartition]:
        """All partitions, in order."""
        return sorted(self._elements)

    def topics(self) -> list[str]:
        """All topics, in order."""
        return sorted({key.topic for key in self._elements})

    def ok(self) -> Self:
        """The elements that came without an error."""
        return type(self)(each for each in self if each.error is None)

    def errors(self) -> Self:
        """The elements that came with an error."""
        return type(self)(each for each in self if each.error is not None)

    def raise_for_errors(self) -> Self:
        """Return self when every element is good.

        :raises OffsetsError: naming the partitions in error and what Kafka said of each.
        """
        failures = [(f"{each.topic}-{each.partition}", each.error) for each in self if each.error is not None]
        if failures:
            raise OffsetsError(self.asked, failures)
        return self
