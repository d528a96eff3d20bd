"""The failure note: why an attempt failed, in the driver's own words. Written by Spark's driver, read by the task that
waits for it, which may be far from where the driver prints.

It is shown to people, and decides one thing: whether another try makes sense, by the classes of :mod:`errors` alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerCorruptError, SparkFailedError

FAILURES = "failures"
"""Folder of a window in the ledger."""
MOST_BYTES = 16_384
"""No note is longer: so many characters, of four bytes at most, and what is around them."""
_LONGEST = 3_000
_UNSPECIFIC = ("KafkaOffsetsError", "LedgerError", "OffsetsError")
"""Classes that don't say whether the cause may pass: a store may have been out of reach."""


@dataclass(frozen=True, slots=True)
class FailureNote:
    """Why an attempt failed.

    :param error: name of the exception's class.
    :param message: what it says, as one line.
    """

    error: str
    message: str

    def to_bytes(self) -> bytes:
        """JSON for the file."""
        return json.dumps({"format": 1} | asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a note; it is shortened and made one line again, whoever wrote it.

        :raises LedgerCorruptError: when it is something else.
        """
        try:
            fields = json.loads(content)
            return cls(one_line(str(fields["error"])), one_line(str(fields["message"])))
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is no note of a failure: {error!r}.") from error

    @property
    def is_ours(self) -> bool:
        """Whether the exception is one of this package that says whether its cause may pass."""
        kind = vars(errors).get(self.error)
        return self.error not in _UNSPECIFIC and isinstance(kind, type) and issubclass(kind, KafkaOffsetsError)

    def as_error(self) -> KafkaOffsetsError:
        """The exception that it tells of; a :class:`SparkFailedError`, which is tried again, unless it is one of ours
        that says more."""
        kind = vars(errors)[self.error] if self.is_ours else SparkFailedError
        found: KafkaOffsetsError = kind(f"{self.error}: {self.message}")
        return found


def note_of(error: Exception) -> FailureNote:
    """The note of an exception."""
    return FailureNote(type(error).__name__, one_line(str(error)))


def one_line(text: str) -> str:
    """A text of any origin, fit for a log: one line of limited length, without control characters."""
    words = "".join(each if each.isprintable() else " " for each in text).split()
    line = " ".join(words)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
