"""The publication: which attempt of a window counts (``committed.json``). Written by Spark, read by everybody."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from airflow_kafka_offsets.errors import LedgerCorruptError

COMMITTED = "committed.json"
"""Name of the file in a window's folder of the ledger."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Publication:
    """The published attempt of a window.

    :param attempt: its name.
    :param output: folder with its rows; None for an empty window.
    :param manifest_sha256: the manifest that it read.
    :param rows: rows in the output.
    :param outside: those of them whose timestamp lies outside the window, kept apart in the output; None when the
        window's offsets alone say which rows are its own.
    """

    attempt: str
    output: str | None
    manifest_sha256: str
    rows: int
    outside: int | None = None

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
            return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not a {COMMITTED}: {error!r}.") from error
