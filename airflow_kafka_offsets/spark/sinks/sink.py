"""The sink: where a window's rows go, and the two promises that a load needs from it.

A sink replaces a window's rows as a whole, in one step that happens or doesn't, and reads back what it holds of a
window. Everything else (counting, the verdict, the publication) is done for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_kafka_offsets.offsets.windows.ledger_names import LedgerIdentity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

WINDOW_COLUMN, ATTEMPT_COLUMN, OUTSIDE_COLUMN = "window", "attempt", "outside_window"
"""Columns that we add: the window that a row belongs to, its attempt, and with strict time whether its timestamp lies
outside the window."""
OWN_COLUMNS = {WINDOW_COLUMN, ATTEMPT_COLUMN, OUTSIDE_COLUMN}
AUDITED = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The columns that identify a row: the output must keep them."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at loading a window.

    :param name: the attempt's unique name.
    :param pipeline: the window's pipeline, for people: another ledger may have a pipeline of the same name.
    :param ledger_id: the window's ledger. It alone decides which ledger a place belongs to.
    :param window: the window's name.
    :param revision: number of the window's revision.
    :param manifest_sha256: hash of the manifest that lists the window's records.
    :param started_ms: when the driver began, Unix milliseconds.
    :param offsets: offsets in the window; 0 means that it has no rows and old ones must be removed.
    :param strict_time: the rows have the boolean column ``outside_window``, and the output keeps it.
    :param earlier: names of the attempts at this same revision that began before.
    :param has_note: the ledger has this attempt's note; False for a Spark Connect client, which can't write one.
    :param schema: schema of the rows that the attempt has written; None when published rows are counted again, which
        needs only the audited columns.
    :param manifest_uri: where the manifest is.
    :param ranges: the manifest's ranges, ``[start, end)`` by topic and partition as JSON; empty if that is long.
    :param output: name of the derived output that is written; empty for the first one, and for records.
    :param at_once: the rows must be visible once written, because an output written after them can't be hidden.
    :param noted: lists again the attempts that the ledger knows, this one included: two attempts that began at the same
        moment are not in each other's ``earlier``.
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
    has_note: bool = True
    manifest_uri: str = ""
    ranges: str = ""
    output: str = ""
    at_once: bool = False
    schema: StructType | None = field(default=None, compare=False, repr=False)
    noted: Callable[[], Collection[str]] = field(default=frozenset, compare=False, repr=False)

    @property
    def ledger(self) -> LedgerIdentity:
        """The window's ledger."""
        return LedgerIdentity(self.ledger_id, self.pipeline)


class Sink(ABC):
    """Where a window's rows go. To add your own, implement :meth:`write` and :meth:`read`.

    :cvar kind: the sink's name in the ledger, such as ``"postgres"``.
    :cvar keeps_attempts_apart: each attempt's rows have a place of their own, so no attempt replaces another's rows.
    :cvar hides_rows: rows can stay hidden until :meth:`release`.
    :ivar place: the folder or table, used to refuse two outputs in one place; None if your sink doesn't say.
    """

    kind: str
    keeps_attempts_apart: bool = False
    hides_rows: bool = False
    place: str | None = None

    @abstractmethod
    def write(self, rows: DataFrame, attempt: Attempt) -> str | None:
        """Make these the only rows of the window, in one transaction: afterwards either all of them are there, or the
        old ones.

        Run exactly one action on ``rows``: each action reads Kafka again, and the rows are counted as they pass.
        Replace what earlier attempts wrote, which may be the work of another application. Never replace what a later
        attempt wrote, judged by ``attempt.revision`` and ``attempt.started_ms``: otherwise the ledger publishes rows
        that aren't there.

        :param rows: what to write. If it has no rows, the window's old rows must still be removed.
        :param attempt: names the window. Record its name, manifest hash and revision in the transaction itself.
        :returns: where the window's rows are, for people and for readers: a folder or a table's name. None if there
            are no rows and no place.
        """

    @abstractmethod
    def read(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        """What the output holds of the window: at least ``topic``, ``partition``, ``offset``, and ``outside_window`` if
        the attempt has strict time. Called after :meth:`write`, and again by a rerun of a published window, then with
        the published attempt."""

    def session_settings(self, spark: SparkSession) -> AbstractContextManager[None]:
        """What the session is set to while a window is written, read and counted. Nothing by default."""
        return nullcontext()

    def unseen(self, attempt: Attempt) -> str:
        """Where the rows are that :meth:`write` has written and that nobody is shown yet, for people. Empty by default:
        rows are visible once written."""
        return ""

    def release(self, spark: SparkSession, attempt: Attempt) -> None:  # noqa: B027  # most have nothing left to do
        """Show everybody what :meth:`write` has written for an attempt, once it is proved. Does nothing by default:
        rows are visible once written."""


def audited_columns(strict_time: bool) -> dict[str, str]:
    """The columns that the output must keep, and their types. With strict time ``outside_window`` is one of them."""
    return AUDITED | ({OUTSIDE_COLUMN: "boolean"} if strict_time else {})


def audited_ddl(strict_time: bool) -> str:
    """The audited columns as a Spark schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in audited_columns(strict_time).items())
