"""Partitions, and the container in which everything that is known per partition comes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, Self, TypeVar

from airflow_kafka_offsets.offsets.answer_set import AnswerSet, Element


class TopicPartition(NamedTuple):
    """A partition of a topic. Sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionElement(Element, Protocol):
    """An element about one partition."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


E = TypeVar("E", bound=PartitionElement)


class PartitionMap(AnswerSet[E]):
    """Elements by partition; iterates in order of topic and partition.

    Elements are named tuples and lie in a dictionary per topic: a lag poll makes some hundred thousand of them.
    """

    __slots__ = ("_topics",)

    def __init__(self, elements: Iterable[E] = ()) -> None:
        self._topics: dict[str, dict[int, E]] = {}
        for each in elements:
            topic = self._topics.get(each.topic)
            if topic is None:
                topic = self._topics[each.topic] = {}
            topic[each.partition] = each

    @classmethod
    def of(cls, topics: dict[str, dict[int, E]]) -> Self:
        """Elements that lie by topic and number already."""
        made = cls()
        made._topics = topics
        return made

    @property
    def by_topic(self) -> Mapping[str, Mapping[int, E]]:
        """Elements by topic and number, in no order: for going through very many of them."""
        return self._topics

    def unordered(self) -> Iterator[E]:
        """All elements, without the time that sorting takes."""
        return itertools.chain.from_iterable(each.values() for each in self._topics.values())

    def __iter__(self) -> Iterator[E]:
        for topic in sorted(self._topics):
            elements = self._topics[topic]
            for partition in sorted(elements):
                yield elements[partition]

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    @staticmethod
    def label(element: E) -> str:
        """``topic-partition``."""
        return f"{element.topic}-{element.partition}"

    def __contains__(self, partition: TopicPartition) -> bool:
        return self.lookup(*partition) is not None

    def lookup(self, topic: str, partition: int) -> E | None:
        """The element of one partition; None when it isn't part of the answer."""
        elements = self._topics.get(topic)
        return None if elements is None else elements.get(partition)

    def of_topics(self, topics: Iterable[str]) -> Self:
        """The elements of these topics alone."""
        return self.of({topic: self._topics[topic] for topic in topics if topic in self._topics})

    def of_partitions(self, partitions: Iterable[TopicPartition]) -> Self:
        """The elements of these partitions alone; those that aren't part of the answer stay absent."""
        found = (self.lookup(*each) for each in partitions)
        return self._of(each for each in found if each is not None)

    def partitions(self) -> list[TopicPartition]:
        """All partitions, in order."""
        return [TopicPartition(topic, number) for topic in self.topics() for number in sorted(self._topics[topic])]

    def topics(self) -> list[str]:
        """All topics, in order."""
        return sorted(self._topics)
