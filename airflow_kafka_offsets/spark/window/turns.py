"""Turns: windows that are loaded at once and written to the same table are written one after another, in order of time.

A table's library refuses one of two commits that come at the same time, and who reads the table as it grows gets its
windows in order. Which tables a window is written to is known only once its application says so. So a window waits for
all windows before it that are still being loaded, until each has ended, or has said that it goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from contextlib import contextmanager
from threading import Condition


class Turns:
    """The windows that are being loaded now, by their place in the order, with their tables; None while a window hasn't
    said them."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._tables: dict[int, AbstractSet[str] | None] = {}

    def begin(self, place: int) -> None:
        """A window begins to be loaded. Called in order of the places."""
        with self._changed:
            self._tables[place] = None

    @contextmanager
    def taken(self, place: int, tables: AbstractSet[str]) -> Iterator[None]:
        """Wait for a window's turn; it is the next one's after the block.

        :param tables: those that the window is written to.
        """
        self._say(place, tables)
        try:
            yield
        finally:
            self._say(place, frozenset())

    def _say(self, place: int, tables: AbstractSet[str]) -> None:
        with self._changed:
            self._tables[place] = tables
            self._changed.notify_all()
            self._changed.wait_for(lambda: not (tables and self._before(tables, place)))

    def _before(self, tables: AbstractSet[str], place: int) -> bool:
        """Whether a window before may still be written to one of these tables."""
        earlier = (said for other, said in self._tables.items() if other < place)
        return any(said is None or said & tables for said in earlier)

    def end(self, place: int) -> None:
        """A window has been loaded, or has failed."""
        with self._changed:
            self._tables.pop(place, None)
            self._changed.notify_all()
