"""The publication: which attempt of a window counts (``committed.json``). Written by Spark, read by everybody."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Self

from airflow_kafka_offsets.errors import LedgerCorruptError

COMMITTED = "committed.json"
"""Name of the file in a window's folder of the ledger."""
FORMAT = 1
ATTEMPT_NAME = re.compile(r"[A-Za-z0-9._+-]+")
"""What an attempt may be called: it names files and folders."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The published attempt of a window.

    :param attempt: its name.
    :param output: folder with its rows; None for an empty window.
    :param manifest_sha256: the manifest that it read.
    :param rows: rows in the output.
    :param outside: those of them whose timestamp lies outside the window, kept apart in the output; None when the
        window's offsets alone say which rows are its own.
    :param start_snapshot: number of the snapshot at the window's start; None in files of earlier versions.
    :param end_snapshot: number of the one at its end.
    :param sink: the output's kind: ``parquet``, ``orc``, ``json``, ``delta``, ``iceberg``, or what a sink of the user's
        own calls itself. It was ``parquet`` alone before this field was.
    :param moved_to: plain folder that the output is moved to once it is published; None when it stays.
    """

    attempt: str
    output: str | None
    manifest_sha256: str
    rows: int
    outside: int | None = None
    start_snapshot: int | None = None
    end_snapshot: int | None = None
    sink: str = "parquet"
    moved_to: str | None = None

    def to_bytes(self) -> bytes:
        """JSON for the file."""
        return json.dumps({"format": FORMAT} | asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of :meth:`to_bytes`.

        :raises LedgerCorruptError: when it is something else.
        """
        try:
            fields = json.loads(content)
            if fields["format"] != FORMAT:
                raise ValueError(f"format {fields['format']}, this version reads {FORMAT}")
            if not ATTEMPT_NAME.fullmatch(fields["attempt"]):
                raise ValueError(f"attempt {fields['attempt']!r}")
            return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not a {COMMITTED}: {error!r}.") from error


def counting(revisions: Sequence[Publication | None]) -> int | None:
    """Which of a window's revisions counts, as an index; None when none is published.

    The newest that is published. Of those that were made from the same snapshots it is the first: the later ones begin
    where the logs did by then, and lack records that the first one has.

    :param revisions: what each has published, the oldest first.
    """
    published = [(index, each) for index, each in enumerate(revisions) if each is not None]
    if not published:
        return None
    newest, last = published[-1]
    made_from = (last.start_snapshot, last.end_snapshot)
    same = [index for index, each in published if (each.start_snapshot, each.end_snapshot) == made_from]
    return newest if None in made_from else same[0]
