"""The sink: where a window's rows go, and the two promises that a load needs of such a place.

A sink replaces a window's rows as a whole, in one step that happens or doesn't, and reads back what it holds of a
window. Everything else (counting, the verdict, the publication) is done for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_kafka_offsets.offsets.windows.ledger_names import LedgerIdentity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

WINDOW_COLUMN, ATTEMPT_COLUMN, OUTSIDE_COLUMN = "window", "attempt", "outside_window"
"""Columns that aren't the user's: which window a row is of, and with strict time whether its timestamp lies outside."""
OWN_COLUMNS = {WINDOW_COLUMN, ATTEMPT_COLUMN, OUTSIDE_COLUMN}
AUDITED = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The columns that rows are told apart by: the output must keep them."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at loading a window.

    :param name: the attempt's name, used by no other.
    :param pipeline: the window's pipeline, for people: other ledgers may have one of the same name.
    :param ledger_id: the ledger that the window is of. Whose rows a place holds is told by it alone.
    :param window: the window's name.
    :param revision: which revision of the window.
    :param manifest_sha256: hash of the manifest that says which records it holds.
    :param started_ms: when the driver began, Unix milliseconds.
    :param offsets: offsets in the window; 0 means that it has no rows and old ones are to go.
    :param strict_time: the rows have the boolean column ``outside_window``, and the output keeps it.
    :param earlier: names of the attempts at this same revision that began before, and have proved where they read from.
    :param refused: names of the others that began before: they wrote what wasn't proved, or died before they had asked
        Kafka where it came from.
    :param has_note: the ledger knows that it has begun; a client of Spark Connect can't tell it.
    :param schema: columns of the rows that the attempt has written, as Spark has them; None where what was published is
        counted again, for which the audit's columns will do.
    :param manifest_uri: where the manifest is.
    :param ranges: what it holds, ``[start, end)`` by topic and partition as JSON; empty where that is long.
    :param output: which of several derived outputs is written; empty for the first one, and for records.
    :param at_once: the rows must be visible once written, because an output written after them can't be hidden.
    :param noted: looks again which attempts the ledger knows by now, this one included: another may have begun at the
        same moment, so that neither is among the other's ``earlier``.
    """

    name: str
    pipeline: str
    ledger_id: str
    window: str
    revision: int
    manifest_sha256: str
    started_ms: int
    offsets: int
    strict_time: bool = False
    earlier: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    has_note: bool = True
    manifest_uri: str = ""
    ranges: str = ""
    output: str = ""
    at_once: bool = False
    schema: StructType | None = field(default=None, compare=False, repr=False)
    noted: Callable[[], Collection[str]] = field(default=frozenset, compare=False, repr=False)

    @property
    def ledger(self) -> LedgerIdentity:
        """The ledger that the window is of."""
        return LedgerIdentity(self.ledger_id, self.pipeline)


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink holds after :meth:`Sink.write`.

    :param output: where the window's rows are, for people and for readers: a folder, a table's name. None when there
        are none and no place either.
    :param attempt: the attempt whose rows stand there: this one, or one of its ``earlier``; derived rows are always to
        be this one's.
    """

    output: str | None
    attempt: str


class Sink(ABC):
    """Where a window's rows go. For a place of your own, write :meth:`write` and :meth:`read`.

    :cvar kind: what the ledger calls it: a name of your own, such as ``"postgres"``.
    :cvar keeps_attempts_apart: each attempt's rows have a place of their own, so that none replaces another's.
    :cvar hides_rows: they may be kept unseen until :meth:`release`.
    :ivar place: the folder or table, by which two outputs in one place are refused; None where a sink of your own
        doesn't say.
    """

    kind: str
    keeps_attempts_apart: bool = False
    hides_rows: bool = False
    place: str | None = None

    @abstractmethod
    def write(self, rows: DataFrame, attempt: Attempt) -> Written:
        """Make these the only rows of the window, in one transaction: afterwards all are there, or the old ones still.

        Exactly one action must run on ``rows``: they come from Kafka each time, and are counted as they pass. Replace
        what earlier attempts wrote, which another application may have made; and never what one wrote that began later:
        by ``attempt.revision`` and ``attempt.started_ms``, or else the ledger publishes rows that aren't there.

        :param rows: what to write. Without rows the window's old ones must go all the same.
        :param attempt: names the window; its name, manifest hash and revision belong into the transaction's own record.
        """

    @abstractmethod
    def read(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        """What the output holds of the window: at least ``topic``, ``partition``, ``offset``, and ``outside_window``
        where the attempt has strict time. Called after :meth:`write`, and again by a rerun of a published window, then
        with the published attempt."""

    def unseen(self, attempt: Attempt) -> str:
        """Where rows are that :meth:`write` has written and nobody is shown yet, for people. By default empty: they are
        seen when they are written."""
        return ""

    def release(self, spark: SparkSession, attempt: Attempt) -> None:  # noqa: B027  # most have nothing left to do
        """Show everybody what :meth:`write` has written of an attempt, once it is proved. By default nothing is left to
        do: it is seen when it is written."""


def audited_columns(strict_time: bool) -> dict[str, str]:
    """The columns that the output must keep, and their types. With strict time ``outside_window`` is one of them."""
    return AUDITED | ({OUTSIDE_COLUMN: "boolean"} if strict_time else {})


def audited_ddl(strict_time: bool) -> str:
    """The same as Spark reads a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in audited_columns(strict_time).items())
