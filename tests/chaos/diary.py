"""The diary: what happened to offsets and windows, so that a failure can tell the story of one offset."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tests.chaos.plan import Task


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition: start inclusive, end exclusive."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    def covers(self, topic: str, partition: int, offset: int) -> bool:
        return (self.topic, self.partition) == (topic, partition) and self.start_offset <= offset < self.end_offset


@dataclass(frozen=True, slots=True)
class _Entry:
    words: str
    span: Span | None = None
    window: tuple[str, int, int] | None = None


class Diary:
    """Entries in order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def note_span(self, span: Span, words: str) -> None:
        """Record what happened to some offsets."""
        self._entries.append(_Entry(f"{span.topic}-{span.partition} {words}", span))

    def note_task(self, task: Task, words: str) -> None:
        """Record what happened to a window."""
        self._entries.append(_Entry(words, window=task.window))

    def story(
        self, store: str, topic: str, partition: int, offset: int, windows: Collection[tuple[int, int]]
    ) -> list[str]:
        """The entries about one offset and about the windows in question, each with its number in the diary."""
        asked = {(store, *each) for each in windows}
        return [
            f"    {number}. {each.words}"
            for number, each in enumerate(self._entries)
            if each.window in asked or (each.span is not None and each.span.covers(topic, partition, offset))
        ]

    def task_story(self, task: Task) -> list[str]:
        """The entries about one window."""
        return self.story(task.store, "", 0, 0, [task.window[1:]])
