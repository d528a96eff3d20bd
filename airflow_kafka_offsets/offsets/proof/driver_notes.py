"""What one driver of an attempt notes besides its counts: why it failed, and which Spark application it is.

A failure note is shown to people, and decides one thing: whether a retry makes sense, by the name of a class in
``errors.py``. Neither is trusted further than that: whoever may write to the ledger can put a note there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerCorruptError, SparkFailedError, WindowsFailedError
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.instants import now_ms

MOST_BYTES = 16_384
"""Maximum size of a note: the longest text, with four bytes a character, and what surrounds it."""
_LONGEST = 3_000
EXIT_MARK = "kafka-offsets-load: "
"""The beginning of :func:`exit_line`."""
_PERMANENT = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, KafkaOffsetsError) and kind.retriable is KafkaOffsetsError.retriable
}
"""Errors of a driver that a retry would end with too: those that are never ``retriable``."""


@dataclass(frozen=True, slots=True)
class FailureNote:
    """Why an attempt failed.

    :param error: name of the exception's class.
    :param message: its message, as one line.
    :param noted_ms: when it was noted, Unix milliseconds; None when unknown.
    :param is_after_proof: the driver had proved the window before: its counts don't stand then.
    """

    error: str
    message: str
    noted_ms: int | None = None
    is_after_proof: bool = False

    def to_bytes(self) -> bytes:
        return plain_json.to_bytes(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a note. Its texts are shortened and made one line again, since anyone may have written it.

        :raises LedgerCorruptError: when it is something else.
        """
        try:
            fields = json.loads(content)
            noted_ms = fields.get("noted_ms")
            known = isinstance(noted_ms, int) and not isinstance(noted_ms, bool)
            return cls(
                one_line(str(fields["error"])),
                one_line(str(fields["message"])),
                int(noted_ms) if known else None,
                is_after_proof=bool(fields.get("is_after_proof")),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not a note of a failure: {error!r}.") from error

    @property
    def is_permanent(self) -> bool:
        """Whether the exception is one of this package's with a permanent cause."""
        return self.error in _PERMANENT

    def as_error(self) -> KafkaOffsetsError:
        """The exception that was noted, if it is permanent; otherwise a :class:`SparkFailedError`, which is retried."""
        return _PERMANENT.get(self.error, SparkFailedError)(f"{self.error}: {self.message}")


def note_of(error: Exception, *, is_after_proof: bool = False) -> FailureNote:
    return FailureNote(type(error).__name__, one_line(str(error)), now_ms(), is_after_proof)


def exit_line(error: Exception) -> str:
    """The last line that the ready-made load prints when it fails. Its mark sets it apart from an application's log. If
    some of several windows have failed, a table of them comes before."""
    head, *table = str(error).splitlines() if isinstance(error, WindowsFailedError) else [str(error)]
    return "\n".join(f"{EXIT_MARK}{line}" for line in [*table, f"{type(error).__name__}: {one_line(head)}"])


def one_line(text: str, longest: int = _LONGEST) -> str:
    """A text of any origin, made safe for a log: one line of limited length, without control characters."""
    words = "".join(character if character.isprintable() else " " for character in text).split()
    line = " ".join(words)
    return line if len(line) <= longest else f"{line[:longest]}…"


_ID = re.compile(r"[A-Za-z0-9._-]+")
"""Spark's application ids, with any master. They become part of URLs."""


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """The Spark application of one driver of an attempt.

    :param id: Spark's own id for it.
    :param ui: address of its UI while it runs; None when it has none, or that is no page of the web.
    """

    id: str
    ui: str | None

    def to_bytes(self) -> bytes:
        """The note's file."""
        return plain_json.text_of({"application_id": self.id, "ui": self.ui}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> SparkApplication:
        """Read the note.

        :raises LedgerCorruptError: when it isn't such a note.
        """
        try:
            fields = json.loads(content)
            found, ui = str(fields["application_id"]), fields["ui"]
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not the note of a driver: {error!r}.") from error
        if not _ID.fullmatch(found):
            raise LedgerCorruptError(f"{found!r} is not the id of a Spark application.")
        return cls(found, str(ui) if _is_address(ui) else None)


def _is_address(ui: object) -> bool:
    """Whether a browser may be sent there: a web address without credentials."""
    if not isinstance(ui, str):
        return False
    try:
        parts = urlsplit(ui)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False
