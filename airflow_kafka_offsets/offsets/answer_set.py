"""Containers: what every answer comes in. Element singular, container plural, the same few helpers on each.

A partial failure is data on its element until somebody asks for it to be raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from airflow_kafka_offsets.errors import OffsetsError, ResponseError


class Element(Protocol):
    """Something about one partition, group or topic, or the error that came instead."""

    @property
    def error(self) -> ResponseError | None: ...


class GroupElement(Element, Protocol):
    """An element about one group."""

    @property
    def group(self) -> str: ...


E = TypeVar("E", bound=Element)
G = TypeVar("G", bound=GroupElement)


class AnswerSet(Generic[E]):
    """Elements in order. What they are found by is each container's own."""

    asked: ClassVar[str] = "The request"
    """What was asked, in words, for the message of ``raise_for_errors``."""

    __slots__ = ()

    def __init__(self, elements: Iterable[E] = ()) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[E]:
        raise NotImplementedError

    @staticmethod
    def label(element: E) -> str:
        """What an element is about, in words."""
        raise NotImplementedError

    def _of(self, elements: Iterable[E]) -> Self:
        """A container of the same kind."""
        return type(self)(elements)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(other) == list(self)

    __hash__ = None  # type: ignore[assignment]  # containers are compared in tests, never used as keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def ok(self) -> Self:
        """The elements that came without an error."""
        return self._of(each for each in self if each.error is None)

    def errors(self) -> Self:
        """The elements that came with an error."""
        return self._of(each for each in self if each.error is not None)

    def failures(self) -> list[tuple[str, ResponseError]]:
        """What is in error, in words, and Kafka's error for it."""
        return [(self.label(each), each.error) for each in self if each.error is not None]

    def raise_for_errors(self) -> Self:
        """Return self when every element is good.

        :raises OffsetsError: naming what is in error, and what Kafka said of each.
        """
        failures = self.failures()
        if failures:
            raise OffsetsError(self.asked, failures)
        return self


class ByGroup(AnswerSet[G]):
    """Elements by consumer group; iterates in order of group ids."""

    __slots__ = ("_groups",)

    def __init__(self, elements: Iterable[G] = ()) -> None:
        self._groups = {each.group: each for each in elements}

    def __iter__(self) -> Iterator[G]:
        return (self._groups[group] for group in sorted(self._groups))

    def __len__(self) -> int:
        return len(self._groups)

    @staticmethod
    def label(element: G) -> str:
        """``group loader``."""
        return f"group {element.group}"

    def lookup(self, group: str) -> G | None:
        """One group; None when it wasn't asked for."""
        return self._groups.get(group)
