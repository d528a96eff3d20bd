"""The sink: where a window's rows go. It replaces the rows under a key in one step that happens or doesn't, and tells
what it holds under a key and whose that is. Everything else is done for it: counting, the verdict, and the publication.

A sink's folder or table may have ``{pipeline}`` and ``{topic}`` in its name. With ``{topic}``, the rows of each topic
go to a place of their own. In a path, a topic keeps its name: letters, digits, ``.``, ``_`` and ``-`` are all that
Kafka allows, and all stores do. In a table's name it becomes lower-case, with ``_`` for ``.`` and ``-``: that is what
every catalog takes, as some know no upper case.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, LedgerConflictError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


WINDOW_COLUMN, ATTEMPT_COLUMN = "window", "attempt"
"""Columns that we add: the window that a row belongs to, and the driver that wrote it."""
OWN_COLUMNS = frozenset({WINDOW_COLUMN, ATTEMPT_COLUMN})
AUDITED = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The columns that identify a row, and their types: the output must keep them."""
AUDITED_DDL = ", ".join(f"`{name}` {kind}" for name, kind in AUDITED.items())
"""The same as a Spark schema."""
_PLACEHOLDER = re.compile(r"\{(topic|pipeline)\}")
_ALMOST = re.compile(r"\{\s*(?:topic|pipeline)(?:s|_?name)?\s*\}", re.IGNORECASE)
"""What stands for itself, as other braces do, but was hardly meant to."""
_NUMBER_FIRST = re.compile(r"(?<![^.])\d\w*(?![^.])")
"""A part of a table's name that SQL may take for a number."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One driver's try at loading a window.

    :param window: the window's name.
    :param number: the attempt's number: of two attempts at a window, the higher one began later.
    :param run: the driver's own name, 8 hex digits: a submitter may start several drivers of one attempt.
    :param offsets: offsets that it reads for this output; 0 means that there are no rows and old ones must be removed.
    :param pipeline: the window's pipeline, for people: another ledger may have a pipeline of the same name.
    :param ledger_id: the window's ledger. It alone decides which ledger a place belongs to.
    :param manifest_sha256: hash of the manifest that lists the window's records.
    :param output: name of the output that is written: empty for the first or only one; the topic, if each topic has its
        own; or what a job calls a further one.
    :param is_noted: the ledger has this driver's note; False for a Spark Connect client, which can't write one.
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
    is_noted: bool = True
    knows: Callable[[int, str], bool] = field(default=lambda number, run: True, compare=False, repr=False)

    @property
    def key(self) -> str:
        """What its rows are stored under: ledger, window and output. All attempts at the window have the same."""
        return "/".join(filter(None, (self.ledger_id, self.window, self.output)))

    @property
    def name(self) -> str:
        """Whose the rows are: the attempt's number and its driver, ``17-0a1b2c3d``. No other driver has the same."""
        return f"{self.number}-{self.run}"

    def require_later(self, held: str | None, *, is_noted: bool = False) -> None:
        """Refuse to replace rows that have to stay. Rows are proved by the driver that wrote them, and by no other.

        :param held: the :attr:`name` with which the rows under this :attr:`key` are stored; None if there are none.
        :param is_noted: whether that driver has noted in its ledger that it began.
        :raises CommitConflictError: they are those of a later attempt, or of another driver of this one.
        :raises LedgerConflictError: this ledger doesn't know the driver that wrote them.
        :raises ConfigurationError: this driver has stored another output there.
        """
        if held is None:
            return
        number, run = int(held.partition("-")[0]), held.partition("-")[2]
        rows = f"The output holds window {self.window} by attempt {number} (run {run})"
        if held == self.name:
            raise ConfigurationError(
                f"{rows}: two outputs go to the same place, where each would replace the other's rows. Give each a "
                "place of its own."
            )
        if is_noted and not self.knows(number, run):
            raise LedgerConflictError(
                f"{rows}, which this ledger doesn't know: there is a copy of the ledger, and the copy has loaded it. "
                "Use only one of the two with this output."
            )
        if number == self.number:
            raise CommitConflictError(
                f"{rows}, another driver that was started for this same attempt: what it wrote, it alone can prove. "
                "Nothing of this one is published. Run the task again."
            )
        if number > self.number:
            raise CommitConflictError(
                f"{rows}, which began after this one ({self.number}): it may still be running or may have died. "
                "Nothing of this one is published. Run the task again."
            )


class Sink(ABC):
    """Where a window's rows go. To add your own, write :meth:`replace` and :meth:`current`.

    A sink stores rows under a key, ``attempt.key``, and with them one name: whose they are, ``attempt.name``.

    :cvar kind: the sink's name in the ledger, such as ``"postgres"``.
    :cvar keeps_attempts_apart: each driver's rows have a place of their own, named after ``attempt.name``, so none
        replaces another's rows.
    :ivar place: the folder or table, used to refuse two outputs in one place; None if your sink doesn't say.
    """

    kind: str
    keeps_attempts_apart: bool = False
    place: str | None = None

    def outputs(self, pipeline: str, topics: Iterable[str]) -> Mapping[str, Sink]:
        """Where the rows of a window go: sinks by the names of their outputs. By default all go here, and the name is
        empty. For an output for each topic, return a sink for each, by the topic's name.

        :param topics: all topics of the window, also those without records in it.
        """
        return {"": self}

    @abstractmethod
    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        """Replace the rows under ``attempt.key`` by these, in one transaction that

        1. reads the name that is stored with the rows under that key, None if there is none, and passes it to
           ``attempt.require_later(name)``, whose errors end the transaction;
        2. deletes those rows, and inserts the new ones;
        3. stores ``attempt.name`` as the name under that key, also if there are no rows (``attempt.offsets == 0``).

        So either all of the new rows are there afterwards, or the old ones. Run exactly one action on ``rows``: each
        action reads Kafka again, and the rows are counted as they pass.

        :returns: where the rows are, for people and for readers: a folder or a table's name. None if there are no rows
            and no place.
        """

    @abstractmethod
    def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
        """What is stored under ``attempt.key`` now, and the name that is stored with it: the rows, with at least
        ``topic``, ``partition`` and ``offset`` (or a job's own columns), none if nothing is there; and the name, None
        if there is none. Called after :meth:`replace`, and compared with ``attempt.name``."""

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


def rows_of(sink: Sink, spark: SparkSession, attempt: Attempt, place: str | None) -> DataFrame:
    """What an output holds of an attempt that has written to it.

    :param place: where :meth:`Sink.replace` has said that the rows are.
    :raises CommitConflictError: it holds another attempt's rows.
    """
    rows, held = sink.current(spark, attempt)
    if place is not None and held != attempt.name:
        whose = f"those of attempt {held}" if held else "rows of no attempt that it still knows"
        raise CommitConflictError(
            f"Window {attempt.window} was not written to {place}, which holds {whose}: another one wrote at the same "
            "time, or a later one before. Nothing is published. Run the task again."
        )
    return rows


def is_by_topic(place: str) -> bool:
    """Whether a place is one for each topic.

    :raises ConfigurationError: a placeholder is misspelled.
    """
    found = next((each[0] for each in _ALMOST.finditer(place) if not _PLACEHOLDER.fullmatch(each[0])), None)
    if found is not None:
        raise ConfigurationError(
            f"The output {place} has {found} in its name, which stands for nothing. What stands for a name is "
            "{topic} or {pipeline}, spelled exactly so."
        )
    return "{topic}" in place


def places_of(place: str, pipeline: str, topics: Iterable[str], *, is_path: bool) -> dict[str, str]:
    """The places that an output with a name like this has: by topic if it has ``{topic}``, or else one, under an empty
    name.

    :param is_path: whether it is a path, or a table's name.
    :raises ConfigurationError: two topics would have one place; or as :func:`is_by_topic`.
    """
    if not is_by_topic(place):
        return {"": _filled(place, {"pipeline": pipeline}, is_path=is_path)}
    places = {topic: _filled(place, {"pipeline": pipeline, "topic": topic}, is_path=is_path) for topic in topics}
    first: dict[str, str] = {}
    for topic, found in places.items():
        other = first.setdefault(found, topic)
        if other != topic:
            raise ConfigurationError(
                f"The topics {other} and {topic} would both go to the table {found}: in a table's name, a topic is "
                "lower-case, and has _ for . and -. Nothing was read. Write them to a path with {topic} in it, or "
                "load them in pipelines of their own."
            )
    return places


def _filled(place: str, names: dict[str, str], *, is_path: bool) -> str:
    if is_path:
        return _PLACEHOLDER.sub(lambda found: names[found[1]], place)
    named = _PLACEHOLDER.sub(lambda found: re.sub(r"[.-]", "_", names[found[1]].lower()), place)
    return _NUMBER_FIRST.sub(lambda part: f"`{part[0]}`", named)
