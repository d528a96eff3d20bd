"""The failure note: why an attempt failed, in the driver's own words. Written by Spark's driver, read by the task that
waits for it, which may be far from where the driver prints.

It is shown to people, and decides one thing: whether another try makes sense, by the name of a class of ``errors.py``.
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
EXIT_MARK = "kafka-offsets-load: "
"""How :func:`exit_line` begins."""
_PERMANENT = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, KafkaOffsetsError) and kind.retriable is KafkaOffsetsError.retriable
}
"""What a driver may end with that another try would end with too: what never says that it is ``retriable``."""


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
    def is_permanent(self) -> bool:
        """Whether the exception is one of this package whose cause doesn't pass."""
        return self.error in _PERMANENT

    def as_error(self) -> KafkaOffsetsError:
        """The exception that it tells of, where that is permanent; else a :class:`SparkFailedError`, which is tried
        again."""
        return _PERMANENT.get(self.error, SparkFailedError)(f"{self.error}: {self.message}")


def note_of(error: Exception) -> FailureNote:
    """The note of an exception."""
    return FailureNote(type(error).__name__, one_line(str(error)))


def exit_line(error: Exception) -> str:
    """What the ready-made load prints last, when it fails. Its mark tells it from a line that an application logs."""
    return f"{EXIT_MARK}{type(error).__name__}: {one_line(str(error))}"


def one_line(text: str) -> str:
    """A text of any origin, fit for a log: one line of limited length, without control characters."""
    words = "".join(each if each.isprintable() else " " for each in text).split()
    line = " ".join(words)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
