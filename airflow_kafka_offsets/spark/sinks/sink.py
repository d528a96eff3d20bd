"""The sink: where a window's rows go. It replaces a window's rows as a whole, in one step that happens or doesn't, and
reads back what it holds of a window. Everything else is done for it: the order of attempts, counting, the verdict, and
the publication.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_COLUMN, ATTEMPT_COLUMN = "window", "attempt"
"""Columns that we add: the window that a row belongs to, and the driver that wrote it."""
OWN_COLUMNS = frozenset({WINDOW_COLUMN, ATTEMPT_COLUMN})
AUDITED = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The columns that identify a row, and their types: the output must keep them."""
AUDITED_DDL = ", ".join(f"`{name}` {kind}" for name, kind in AUDITED.items())
"""The same as a Spark schema."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at loading a window.

    :param window: the window's name.
    :param number: the attempt's number: of two attempts at a window, the higher one began later.
    :param run: the driver's own name, 8 hex digits: a submitter may start several drivers of one attempt.
    :param offsets: offsets that it reads; 0 means that the window has no rows and old ones must be removed.
    :param pipeline: the window's pipeline, for people: another ledger may have a pipeline of the same name.
    :param ledger_id: the window's ledger. It alone decides which ledger a place belongs to.
    :param manifest_sha256: hash of the manifest that lists the window's records.
    :param output: name of the derived output that is written; empty for the first one, and for records.
    :param facts: what else is worth recording with the rows, for people: ``manifest`` (its URI), ``ranges`` (``[start,
        end)`` by topic and partition as JSON, unless that is long).
    :param is_noted: the ledger has this driver's note; False for a Spark Connect client, which can't write one.
    :param at_once: the rows must be visible once written, because an output written after them can't be hidden.
    :param knows: whether the ledger has the note of a driver, by its attempt's number and its own name.
    """

    window: str
    number: int
    run: str
    offsets: int
    pipeline: str
    ledger_id: str
    manifest_sha256: str
    output: str = ""
    facts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    is_noted: bool = True
    at_once: bool = False
    knows: Callable[[int, str], bool] = field(default=lambda number, run: True, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Number and run as one word, which no other driver has."""
        return f"{self.number}-{self.run}"


class Sink(ABC):
    """Where a window's rows go. To add your own, implement :meth:`replace` and :meth:`current`.

    :cvar kind: the sink's name in the ledger, such as ``"postgres"``.
    :cvar keeps_attempts_apart: each driver's rows have a place of their own, so none replaces another's rows.
    :cvar hides_rows: rows can stay hidden until :meth:`release`.
    :ivar place: the folder or table, used to refuse two outputs in one place; None if your sink doesn't say.
    """

    kind: str
    keeps_attempts_apart: bool = False
    hides_rows: bool = False
    place: str | None = None

    @abstractmethod
    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        """Replace the rows of ``attempt.window`` by these, unless they are of a higher ``attempt.number``; in one
        transaction, which records the number.

        Afterwards either all of the new rows are there, or the old ones. Run exactly one action on ``rows``: each
        action reads Kafka again, and the rows are counted as they pass.

        :param rows: what to write. If it has no rows, the window's old rows must still be removed.
        :returns: where the window's rows are, for people and for readers: a folder or a table's name. None if there
            are no rows and no place.
        """

    @abstractmethod
    def current(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        """What the output holds of ``attempt.window`` now: at least ``topic``, ``partition`` and ``offset``, or a job's
        own columns. Called after :meth:`replace`."""

    def session_settings(self, spark: SparkSession) -> AbstractContextManager[None]:
        """What the session is set to while a window is written, read and counted. Nothing by default."""
        return nullcontext()

    def hidden_in(self, attempt: Attempt) -> str:
        """Where the rows are that :meth:`replace` has written and that nobody is shown yet, for people. Empty by
        default: rows are visible once written."""
        return ""

    def release(self, spark: SparkSession, attempt: Attempt) -> None:  # noqa: B027  # most have nothing left to do
        """Show everybody what :meth:`replace` has written for an attempt, once it is proved. Does nothing by default:
        rows are visible once written."""
