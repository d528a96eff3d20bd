"""Every exception this package raises. Read this file first.

::

    KafkaOffsetsError
    ├── ConfigurationError (ValueError)     an argument, connection or setting is wrong; Kafka was not asked
    │   ├── ColumnChangedError              a column of the rows to write has another type than the output's
    │   ├── InstantError                    naive datetime, seconds instead of milliseconds, or instant in the future
    │   └── IntervalError                   a window is empty, inverted or missing
    ├── ClusterError                        the cluster as a whole couldn't be asked
    │   ├── ClusterUnreachableError         no broker answered within the deadline (transient)
    │   └── AuthenticationError             a broker refused the credentials (permanent)
    ├── OffsetsError                        Kafka answered with an error for some partitions or groups
    ├── OutdatedSurveyError                 another task stored newer answers from Kafka than this task's (transient)
    ├── WindowError                         a window can't be read as it was pinned
    │   ├── DataLossError                   records in its range are gone (retention, DeleteRecords)
    │   ├── LogTruncatedError               the log was truncated, or ends before the window does
    │   ├── TopicChangedError               the topic is missing, was re-created, or belongs to another cluster
    │   ├── WindowOverlapError              another window of the pipeline has some of its time
    │   ├── FutureRecordError               a record from the future would leave all windows up to its time empty
    │   ├── HoleError                       offsets before the window are in no published window (transient)
    │   ├── ExtremeTimestampError           a record has a timestamp that Spark can't read
    │   ├── UndecodableError                a key or value can't be decoded, and the load was to fail then
    │   ├── UnprovenError                   what was read or written differs from the manifest
    │   │   └── CountedTwiceError           possibly only because Spark reread rows after losing an executor (transient)
    │   └── IncompleteTableError            an audited table lacks records of the window, or has other rows of it
    │       └── NotWrittenYetError          the table's writer hasn't come to the window's end (transient)
    ├── RegistryError                       the schema registry refused, or lacks what the window needs
    │   └── RegistryUnreachableError        it didn't answer, or not now (transient)
    ├── UncheckedSourceError                couldn't ask Kafka whether the window's own topics were read (transient)
    ├── DriverGoneError                     Spark's driver vanished without reporting how it ended (transient)
    ├── SparkFailedError                    Spark or the application failed for its own reasons (transient)
    ├── WindowsFailedError                  some of several windows failed, each for a reason of its own
    ├── ConditionFailedError                under a policy the user chose, a wait can never succeed
    ├── CommitRefusedError                  a group has active members, who own its commits (transient)
    └── LedgerError                         the ledger can't be used as it is
        ├── LedgerConflictError             an existing file differs from what would be recorded
        │   └── CommitConflictError         another commit or attempt came in between (transient)
        ├── LedgerCorruptError              a file is unreadable, missing, or doesn't match its hash
        ├── StoreFailedError                the store failed an operation (transient)
        └── ExclusiveCreateError            the store can't create a file exclusively

Errors of single partitions and groups are not raised. They are data (:class:`ResponseError`) on the partition's or
group's element, and become an :class:`OffsetsError` only if a caller calls ``raise_for_errors()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

_NO_SUCH_TOPIC = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
"""Kafka calls these retriable because a broker's metadata may lag."""

_SHOWN = 3
"""How many items an error message names before it counts the rest."""
_REASONS, _ALIKE = 20, 5
"""How many reasons a table of failed windows names before it counts the rest, and how many windows for each."""
_LONGEST = 1_000
"""How much of a reason a table shows: that of an application may quote pages of Java."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResponseError:
    """Kafka's error for one partition or one group.

    :param name: Kafka's own name, for example ``UNKNOWN_TOPIC_OR_PARTITION``; or this package's, for what Kafka has no
        error for: ``NO_COMMIT``.
    :param code: Kafka's error code. Client-side failures use them too: 7 for a timeout, 13 for a lost connection.
    :param retriable: Kafka's own flag: whether asking again may help, with fresh metadata.
    :param message: details from the broker or the client; may be empty.
    """

    name: str
    code: int
    retriable: bool
    message: str = ""

    @property
    def may_pass(self) -> bool:
        """Whether asking again may help although the metadata is fresh. An unknown topic is then final: a second
        answer, from another broker if there is one, has confirmed that it was deleted or never existed."""
        return self.retriable and self.name not in _NO_SUCH_TOPIC

    def __str__(self) -> str:
        return f"{self.name} ({self.code})" + (f": {self.message}" if self.message else "")


class KafkaOffsetsError(Exception):
    """Base class of all errors in this package."""

    @property
    def retriable(self) -> bool:
        """Whether the cause may go away by itself, so that waiting or retrying makes sense."""
        return False


class ConfigurationError(KafkaOffsetsError, ValueError):
    """An argument, connection or setting is wrong. Retrying doesn't help."""


class InstantError(ConfigurationError):
    """A moment in time that can't be resolved to offsets."""


class IntervalError(ConfigurationError):
    """A window is empty, inverted or missing."""


class ColumnChangedError(ConfigurationError):
    """A column of the rows to write has another type than it has in the output."""


class ClusterError(KafkaOffsetsError):
    """The cluster as a whole couldn't be asked."""


class ClusterUnreachableError(ClusterError):
    """No broker answered within the deadline. Transient."""

    retriable = True


class AuthenticationError(ClusterError):
    """A broker refused the credentials. Permanent until somebody changes them."""


class OffsetsError(KafkaOffsetsError):
    """Kafka answered with an error for some partitions or groups.

    :param asked: what was asked, in words.
    :param failures: pairs of a label (``flights-3``, ``group loader``) and Kafka's error for it.
    """

    def __init__(self, asked: str, failures: Iterable[tuple[str, ResponseError]]) -> None:
        self.asked = asked
        self.failures = tuple(failures)
        super().__init__(f"{asked} failed for {shorten(f'{what}: {error}' for what, error in self.failures)}.")

    @property
    def retriable(self) -> bool:
        return all(error.may_pass for _, error in self.failures)


class OutdatedSurveyError(KafkaOffsetsError):
    """The log or topic has grown since Kafka was asked, and another task has stored the newer answers. Transient."""

    retriable = True


class WindowError(KafkaOffsetsError):
    """A window can't be read as it was pinned.

    :param topic: the topic concerned; None if it isn't about a single topic.
    """

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message)
        self.topic = topic


class DataLossError(WindowError):
    """Records in a pinned range are gone: retention or DeleteRecords moved the log start past the range's start."""


class LogTruncatedError(WindowError):
    """A log was truncated below pinned or committed offsets (unclean leader election), even if it has grown past them
    again. Or it ends before a pinned range does, for example because an open transaction holds back its end."""


class TopicChangedError(WindowError):
    """The topic is missing, was re-created since its offsets were pinned or planned, or belongs to another cluster."""


class WindowOverlapError(WindowError):
    """Another window of the pipeline, pinned or published, has some of this window's time."""


class FutureRecordError(WindowError):
    """A record from the future is at a window's end: windows up to its time would be empty on its partition."""


class HoleError(WindowError):
    """Offsets before a window are in no published window. Resolved once they are loaded."""

    retriable = True


class ExtremeTimestampError(WindowError):
    """A record's timestamp is out of Spark's range, so Spark's Kafka source fails on it."""


class UndecodableError(WindowError):
    """A record's key or value can't be decoded, and the load was told to fail then (``bad_records="fail"``)."""


class UnprovenError(WindowError):
    """What was read or written differs from the manifest."""


class CountedTwiceError(UnprovenError):
    """What was read differs from what was written, or from what a single read would count, and Spark may have reread
    some rows after losing an executor. A retry reads once; a sort reads twice every time."""

    retriable = True


class IncompleteTableError(WindowError):
    """A table that something else has written lacks records of a window, has some of them twice, or has rows at offsets
    without a record; or nobody can tell any more."""


class NotWrittenYetError(IncompleteTableError):
    """A table lacks records of a window, all of which its writer hasn't come to yet, by its commits."""

    retriable = True


class RegistryError(KafkaOffsetsError):
    """The schema registry refused a request, or doesn't have the subject, version or schema that a window needs."""


class RegistryUnreachableError(RegistryError):
    """The schema registry didn't answer, or said that it can't now. Transient."""

    retriable = True


class UncheckedSourceError(KafkaOffsetsError):
    """Kafka couldn't be asked whether a window was read from the cluster and topics on which it was resolved. Nothing
    is published without that answer. Transient."""

    retriable = True


class DriverGoneError(KafkaOffsetsError):
    """Spark's driver vanished without reporting how its attempt ended. A new attempt may succeed."""

    retriable = True


class SparkFailedError(KafkaOffsetsError):
    """Spark or its application failed for a reason outside this package. A retry may succeed."""

    retriable = True


class FailedWindow(NamedTuple):
    """A window that failed, and why.

    :param window: its name.
    :param pipeline: that of its ledger.
    """

    window: str
    pipeline: str
    error: Exception


class WindowsFailedError(KafkaOffsetsError):
    """Some of the windows of one task or Spark application failed, each for a reason of its own. What was to be done
    with the others is done. A retry makes sense if it does for one of them.

    :param failed: the windows that failed, in order.
    :param of: how many windows there were.
    """

    def __init__(self, failed: Sequence[FailedWindow], of: int) -> None:
        self.failed = tuple(failed)
        head = f"{len(self.failed)} of {number_of(of, 'window')} failed" + (
            f"; the other {of - len(self.failed)} did not." if len(self.failed) < of else "."
        )
        super().__init__("\n".join([head, *_table(self.failed)]))

    @property
    def retriable(self) -> bool:
        return any(getattr(each.error, "retriable", True) for each in self.failed)


def _table(failed: Sequence[FailedWindow]) -> list[str]:
    """The failed windows as the lines of a table, by their reasons; each reason is said once."""
    alike: dict[tuple[str, str], list[FailedWindow]] = {}
    for each in failed:
        # One reason for many windows, such as the end of their driver, may name each.
        alike.setdefault((type(each.error).__name__, str(each.error).replace(each.window, "")), []).append(each)
    rows = [("window", "pipeline", "error", "why")]
    for (kind, _), (first, *others) in islice(alike.items(), _REASONS):
        why = _one_line(first.error).removeprefix(f"{kind}: ")  # as what a driver has said begins
        rows.append((first.window, first.pipeline, kind, why))
        rows += [(each.window, each.pipeline, kind, "the same") for each in others[: _ALIKE - 1]]
        more = len(others) - (_ALIKE - 1)
        rows += [(f"and {more} more", "", kind, "the same")] if more > 0 else []
    rest = sum(map(len, islice(alike.values(), _REASONS, None)))
    return [*in_columns(rows), f"and {rest} more, for other reasons"] if rest else in_columns(rows)


def _one_line(error: Exception) -> str:
    line = " ".join(str(error).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


class ConditionFailedError(KafkaOffsetsError):
    """Under a policy the user chose, a wait can never succeed, so waiting longer is pointless."""


class CommitRefusedError(KafkaOffsetsError):
    """Offsets were not committed because the group has active members. A retry succeeds once they have left."""

    retriable = True


class LedgerError(KafkaOffsetsError):
    """The ledger can't be used as it is."""


class LedgerConflictError(LedgerError):
    """A ledger file contradicts what is about to be recorded."""


class CommitConflictError(LedgerConflictError):
    """Something came in between: another commit to the table, a later attempt, or a ``reload``. So this attempt's rows
    don't count, and another attempt helps."""

    retriable = True


class LedgerCorruptError(LedgerError):
    """A ledger file is unreadable, missing, or doesn't match its hash."""


class StoreFailedError(LedgerError):
    """The ledger's store failed an operation of a command or of Spark's driver; it may have been unreachable.
    Transient."""

    retriable = True


class ExclusiveCreateError(LedgerError):
    """The store can't create a file exclusively, so it can't arbitrate between two writers."""


def or_error(ask: Callable[[], T]) -> T | KafkaOffsetsError:
    """What a function returns, or the error of this package that it raises: for many windows, of which one that fails
    doesn't hold up the others."""
    try:
        return ask()
    except KafkaOffsetsError as error:
        return error


def in_columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table's rows as lines, with each column as wide as its widest text; the last one isn't padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["  ".join([*map(str.ljust, row, widths), row[-1].replace("\n", " ")]).rstrip() for row in rows]


def shorten(items: Iterable[str]) -> str:
    """The first few items and how many more there are; ``none`` if there are no items."""
    named = [item for item in items if item] or ["none"]
    more = len(named) - _SHOWN
    return ", ".join(named[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def number_of(count: int, noun: str) -> str:
    """``1 window``, ``2 windows``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
