"""Every exception this package raises. Read this file first.

::

    KafkaOffsetsError
    ├── ConfigurationError (ValueError)     an argument, connection or setting is wrong; nothing was asked of Kafka
    │   ├── InstantError                    naive datetime, seconds instead of milliseconds, instant in the future
    │   └── IntervalError                   a window that is empty, inverted or not given
    ├── ClusterError                        the cluster as a whole could not be asked
    │   ├── ClusterUnreachableError         no broker answered within the deadline (transient)
    │   └── AuthenticationError             a broker refused the credentials (permanent)
    ├── OffsetsError                        Kafka answered with an error for some partitions or groups
    ├── OutdatedSurveyError                 another task knows more than Kafka said when it was asked (transient)
    ├── WindowError                         a window can't be read as it was pinned
    │   ├── DataLossError                   records of the range are gone (retention, DeleteRecords)
    │   ├── LogTruncatedError               its log was cut, or ends before it does
    │   ├── TopicChangedError               topic missing, re-created, or of another cluster
    │   ├── WindowOverlapError              another window of the pipeline has some of its offsets
    │   ├── FutureRecordError               a record from the future would freeze the windows up to its time
    │   ├── HoleError                       offsets before it are in no published window (transient)
    │   ├── ExtremeTimestampError           a record has a timestamp that Spark can't read
    │   └── UnprovenError                   what was read or written differs from the manifest
    │       └── CountedTwiceError           perhaps only since rows were read anew for a lost executor (transient)
    ├── UncheckedSourceError                whether the window's own topics were read couldn't be asked (transient)
    ├── DriverGoneError                     Spark's driver vanished before it said how it ended (transient)
    ├── SparkFailedError                    Spark, or the application, failed by itself (transient)
    ├── ConditionFailedError                what is waited for can't come true, by a policy that the user chose
    ├── CommitRefusedError                  a group has active members, who own its commits (transient)
    └── LedgerError                         the ledger can't be used as it is
        ├── LedgerConflictError             a file that should be ours says something else
        │   ├── InstantForgottenError       somebody forgot an instant that was in use (transient)
        │   └── CommitConflictError         another commit to the table came in between (transient)
        ├── LedgerCorruptError              a file is unreadable or doesn't match its hash
        ├── StoreFailedError                the store didn't do what it was asked for (transient)
        └── ExclusiveCreateError            the store can't create a file exclusively

Errors of single partitions and groups are not raised: they are data (:class:`ResponseError`) on the element that
they concern, and become an :class:`OffsetsError` only where a caller asks for it with ``raise_for_errors()``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_SETTLED = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
"""Kafka calls these retriable, since a broker's metadata may lag behind; the client has asked for fresh ones."""

_SHOWN = 3
"""How many elements an error message names before it counts the rest."""


@dataclass(frozen=True, slots=True)
class ResponseError:
    """What Kafka said about one partition or one group instead of an answer.

    :param name: Kafka's own name, for example ``UNKNOWN_TOPIC_OR_PARTITION``.
    :param code: Kafka's error code; faults of the client use them too: 7 for a timeout, 13 for a lost connection.
    :param retriable: asking again may help.
    :param message: more words from the broker or the client; may be empty.
    """

    name: str
    code: int
    retriable: bool
    message: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.code})" + (f": {self.message}" if self.message else "")


class KafkaOffsetsError(Exception):
    """Base of all errors of this package."""

    @property
    def retriable(self) -> bool:
        """Whether the cause may pass by itself, so that waiting or trying again makes sense."""
        return False


class ConfigurationError(KafkaOffsetsError, ValueError):
    """An argument, connection or setting is wrong. Asking again can't help."""


class InstantError(ConfigurationError):
    """A moment in time that can't be resolved to offsets."""


class IntervalError(ConfigurationError):
    """A window with no extent, or none given."""


class ClusterError(KafkaOffsetsError):
    """The cluster as a whole could not be asked."""


class ClusterUnreachableError(ClusterError):
    """No broker answered within the deadline. Transient."""

    retriable = True


class AuthenticationError(ClusterError):
    """A broker refused the credentials. Permanent until somebody changes them."""


class OffsetsError(KafkaOffsetsError):
    """Some partitions or groups came back with an error.

    :param asked: what was asked, in words.
    :param failures: pairs of what it concerns (``flights-3``, ``group loader``) and Kafka's error.
    """

    def __init__(self, asked: str, failures: Iterable[tuple[str, ResponseError]]) -> None:
        self.asked = asked
        self.failures = tuple(failures)
        super().__init__(f"{asked} failed for {shorten(f'{what}: {error}' for what, error in self.failures)}.")

    @property
    def retriable(self) -> bool:
        return all(error.retriable and error.name not in _SETTLED for _, error in self.failures)


class OutdatedSurveyError(KafkaOffsetsError):
    """Another task has stored what Kafka said later, of a log or topic that has grown meanwhile. Transient."""

    retriable = True


class WindowError(KafkaOffsetsError):
    """A window can't be read as it was pinned.

    :param topic: the topic that it is about, where that is one.
    """

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message)
        self.topic = topic


class DataLossError(WindowError):
    """Records of a pinned range are gone from the log: retention or DeleteRecords passed its start."""


class LogTruncatedError(WindowError):
    """A log was cut below offsets that are pinned or committed, even if it has grown past them again (unclean leader
    election); or it ends before a pinned range does, as where an open transaction holds its end."""


class TopicChangedError(WindowError):
    """The topic is missing, was re-created since it was pinned or planned for, or belongs to another cluster."""


class WindowOverlapError(WindowError):
    """Another window of the pipeline, pinned or published, has some of this one's offsets.

    :param passes: whether the other one is being pinned at this moment, and may be taken back.
    """

    def __init__(self, message: str, *, passes: bool) -> None:
        super().__init__(message)
        self._passes = passes

    @property
    def retriable(self) -> bool:
        return self._passes


class FutureRecordError(WindowError):
    """A record from the future stands at a window's end: windows up to its time would be empty on its partition."""


class HoleError(WindowError):
    """Offsets before a window are in no published window. Passes once they are loaded."""

    retriable = True


class ExtremeTimestampError(WindowError):
    """A record's timestamp doesn't fit Spark's, so that its Kafka source fails on it."""


class UnprovenError(WindowError):
    """What was read or written differs from what the manifest says."""


class CountedTwiceError(UnprovenError):
    """What was read isn't what was written, or isn't one read's count, and some rows may have been read anew for an
    executor that was lost. Another try reads once; a sort reads twice each time."""

    retriable = True


class UncheckedSourceError(KafkaOffsetsError):
    """Whether a window was read from the cluster and topics that it was resolved on couldn't be asked. Nothing is
    published without that answer. Transient."""

    retriable = True


class DriverGoneError(KafkaOffsetsError):
    """Spark's driver vanished before it had said how its attempt ended. A new attempt may come through."""

    retriable = True


class SparkFailedError(KafkaOffsetsError):
    """Spark, or the application that it ran, failed for a reason that isn't one of this package. It may pass."""

    retriable = True


class ConditionFailedError(KafkaOffsetsError):
    """What a task waits for can't come true, by a policy that the user chose: waiting on makes no sense."""


class CommitRefusedError(KafkaOffsetsError):
    """Offsets were not committed: the group has active members. Passes once they have left."""

    retriable = True


class LedgerError(KafkaOffsetsError):
    """The ledger can't be used as it is."""


class LedgerConflictError(LedgerError):
    """A ledger file says something other than what is about to be recorded."""


class InstantForgottenError(LedgerConflictError):
    """Somebody forgot an instant while a window was being pinned with it. Resolving the window again helps."""

    retriable = True


class CommitConflictError(LedgerConflictError):
    """Another commit to the table came in between, so that the window's rows were not written. Writing again helps."""

    retriable = True


class LedgerCorruptError(LedgerError):
    """A ledger file is unreadable, missing, or doesn't match its hash."""


class StoreFailedError(LedgerError):
    """The ledger's store didn't do what a command or Spark's driver asked of it: it may have been out of reach.
    Transient."""

    retriable = True


class ExclusiveCreateError(LedgerError):
    """The store can't create a file exclusively, so it can't arbitrate between two writers."""


def shorten(items: Iterable[str]) -> str:
    """The first few items in words, and how many more there are; ``none`` of no items."""
    named = [item for item in items if item] or ["none"]
    more = len(named) - _SHOWN
    return ", ".join(named[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def number_of(count: int, noun: str) -> str:
    """``1 window``, ``2 windows``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
