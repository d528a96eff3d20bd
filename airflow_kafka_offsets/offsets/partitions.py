"""Partitions, and the containers for everything that is known per partition.

Elements have singular names and containers plural ones; all containers have the same few helpers. A partial failure is
data on its element until the caller raises it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import OffsetsError, ResponseError


class OnPartition(Protocol):
    """Something about one partition."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


class TopicPartition(NamedTuple):
    """A partition of a topic. Sorts by topic, then by number."""

    topic: str
    partition: int

    @classmethod
    def of(cls, thing: OnPartition) -> TopicPartition:
        return cls(thing.topic, thing.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogRange(NamedTuple):
    """Some offsets of a partition. Sorts by topic, partition and start.

    :param start_offset: first offset, inclusive.
    :param end_offset: end, exclusive.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def span(self) -> int:
        """Number of offsets: exactly the records on a plain topic."""
        return self.end_offset - self.start_offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: {self.span} offsets from {self.start_offset} on"


class SeenOffset(NamedTuple):
    """An offset that was seen in a log.

    :param leader_epoch: the leader epoch that it was seen under (KIP-320); None when unknown.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None


def merged(ranges: Iterable[LogRange]) -> list[LogRange]:
    """The ranges in order, with those that touch or overlap merged."""
    found: list[LogRange] = []
    for each in sorted(ranges):
        last = found[-1] if found else None
        if last and last[:2] == each[:2] and each.start_offset <= last.end_offset:
            found[-1] = last._replace(end_offset=max(last.end_offset, each.end_offset))
        else:
            found.append(each)
    return found


def pieces(ranges: Iterable[LogRange]) -> dict[TopicPartition, list[LogRange]]:
    """Ranges by partition, in order."""
    found: dict[TopicPartition, list[LogRange]] = defaultdict(list)
    for each in sorted(ranges):
        found[TopicPartition.of(each)].append(each)
    return dict(found)


def span_of(ranges: Iterable[LogRange]) -> int:
    """Number of offsets in some ranges that don't overlap."""
    return sum(each.span for each in ranges)


T = TypeVar("T", bound=OnPartition)


def by_partition(things: Iterable[T]) -> dict[TopicPartition, T]:
    """Things indexed by partition."""
    return {TopicPartition.of(thing): thing for thing in things}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions by topic, sorted and without duplicates, which brokers refuse."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(dict.fromkeys(partitions)):  # mostly sorted already; a set would lose the order
        topics.setdefault(partition.topic, []).append(partition)
    return topics


class Element(Protocol):
    """Something about one partition, group or topic, or the error returned instead."""

    @property
    def error(self) -> ResponseError | None: ...


class PartitionElement(Element, OnPartition, Protocol):
    """An element about one partition."""


E = TypeVar("E", bound=Element)
P = TypeVar("P", bound=PartitionElement)


class AnswerSet(Generic[E]):
    """Elements in key order."""

    asked: ClassVar[str] = "The request"
    """The request in words, for the message of ``raise_for_errors``."""

    def __init__(self, elements: Iterable[E] = ()) -> None:
        self._elements: dict[Any, E] = {self.key(element): element for element in elements}

    def __iter__(self) -> Iterator[E]:
        return (self._elements[key] for key in sorted(self._elements))

    def __len__(self) -> int:
        return len(self._elements)

    @staticmethod
    def key(element: E) -> Any:
        """The key that an element is looked up by."""
        raise NotImplementedError

    @classmethod
    def label(cls, element: E) -> str:
        """What an element is about, in words."""
        return str(cls.key(element))

    def _of(self, elements: Iterable[E]) -> Self:
        return type(self)(elements)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(other) == list(self)

    __hash__ = None  # type: ignore[assignment]  # containers are compared in tests, never used as keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def of_keys(self, keys: Iterable[Any]) -> Self:
        """The elements with these keys; keys that aren't part of the answer are left out."""
        return self._of(self._elements[key] for key in keys if key in self._elements)

    def ok(self) -> Self:
        return self._of(element for element in self if element.error is None)

    def errors(self) -> Self:
        return self._of(element for element in self if element.error is not None)

    def failures(self) -> list[tuple[str, ResponseError]]:
        """Each element in error, in words, with Kafka's error."""
        return [(self.label(element), element.error) for element in self if element.error is not None]

    def raise_for_errors(self) -> Self:
        """Return self when no element is in error.

        :raises OffsetsError: naming the elements in error, with Kafka's error for each.
        """
        failures = self.failures()
        if failures:
            raise OffsetsError(self.asked, failures)
        return self


class PartitionMap(AnswerSet[P]):
    """Elements by partition; iterates in order of topic and partition.

    Elements are named tuples in a dictionary per topic, because a lag poll creates about a hundred thousand of them.
    """

    def __init__(self, elements: Iterable[P] = ()) -> None:
        self._topics: dict[str, dict[int, P]] = {}
        for element in elements:
            topic = self._topics.get(element.topic)
            if topic is None:
                topic = self._topics[element.topic] = {}
            topic[element.partition] = element

    @classmethod
    def of(cls, topics: dict[str, dict[int, P]]) -> Self:
        """The container of elements that are already grouped by topic and partition number."""
        made = cls()
        made._topics = topics
        return made

    @property
    def by_topic(self) -> Mapping[str, Mapping[int, P]]:
        """Elements by topic and partition number, unordered: for iterating over very many of them."""
        return self._topics

    def unordered(self) -> Iterator[P]:
        """All elements, without the cost of sorting."""
        return itertools.chain.from_iterable(elements.values() for elements in self._topics.values())

    def __iter__(self) -> Iterator[P]:
        for topic in sorted(self._topics):
            elements = self._topics[topic]
            for partition in sorted(elements):
                yield elements[partition]

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    @staticmethod
    def key(element: P) -> TopicPartition:
        return TopicPartition.of(element)

    def __contains__(self, partition: TopicPartition) -> bool:
        return self.lookup(*partition) is not None

    def lookup(self, topic: str, partition: int) -> P | None:
        """The element of one partition; None when it isn't part of the answer."""
        elements = self._topics.get(topic)
        return None if elements is None else elements.get(partition)

    def of_topics(self, topics: Iterable[str]) -> Self:
        return self.of({topic: self._topics[topic] for topic in topics if topic in self._topics})

    def of_keys(self, keys: Iterable[TopicPartition]) -> Self:
        found = (self.lookup(*key) for key in keys)
        return self._of(element for element in found if element is not None)

    def partitions(self) -> list[TopicPartition]:
        """Sorted by topic and number."""
        return [TopicPartition(topic, number) for topic in self.topics() for number in sorted(self._topics[topic])]

    def topics(self) -> list[str]:
        return sorted(self._topics)
