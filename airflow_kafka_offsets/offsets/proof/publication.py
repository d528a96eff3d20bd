"""The publication: which attempt of a window counts. Created by Airflow's side, exclusively, and read by everybody.

All revisions of a window share one sequence of publications, ``publications/00000001.json`` and so on, in the folder of
the first revision. The number alone is the file's name, so if two publishers compete, one creates the file and the
other looks again. The newest publication whose revision wasn't forgotten counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import LedgerCorruptError

if TYPE_CHECKING:
    from airflow_kafka_offsets.offsets.windows.manifest import Manifest

FORMAT = 1
ATTEMPT_NAME = re.compile(r"[A-Za-z0-9._+-]+")
"""Valid names of attempts: they become names of files and folders."""
OF_LOAD = "."
"""Precedes the part of a name that tells attempts of one prepared load apart: a submitter may start several drivers."""
NO_SINK = "none"
"""The kind of sink of a window that was published without a job, as it has no offsets. It has no rows in any output."""
_FILE = re.compile(r"(\d{8})\.json")


@dataclass(frozen=True, slots=True)
class FurtherOutput:
    """A further output of a published attempt, such as a job's dead letters. ``name`` is the job's name for it; the
    other fields are as in :class:`Publication`.
    """

    name: str
    output: str | None
    sink: str
    rows: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A published attempt of a window.

    :param number: its number in the window's sequence, from 1 on.
    :param revision: the window's revision.
    :param attempt: the attempt's name.
    :param result_sha256: hash of the file with the attempt's counts.
    :param manifest_sha256: hash of the manifest that it read.
    :param replaces: number of the publication that counted before; None when there was none.
    :param rows: rows in the output.
    :param output: folder or table with the rows; None for an empty window.
    :param outside: how many of the rows have a timestamp outside the window and are kept apart in the output; None when
        only the window's offsets decide which rows belong to it.
    :param sink: the output's kind: ``parquet``, ``orc``, ``json``, ``delta``, ``iceberg``, or what a user's own sink
        calls itself; or :data:`NO_SINK`.
    :param apart: whether the sink keeps attempts apart; in other sinks, such as a table, the rows of one replace those
        of another.
    :param start_snapshot: number of the snapshot at the window's start.
    :param end_snapshot: number of the snapshot at its end.
    :param started_ms: when the attempt began, Unix milliseconds.
    :param published_ms: when the publication was created, Unix milliseconds.
    :param further: other outputs of the same attempt, which are published with it or not at all.
    """

    number: int
    revision: int
    attempt: str
    result_sha256: str
    manifest_sha256: str
    replaces: int | None
    rows: int
    output: str | None
    outside: int | None
    sink: str
    apart: bool
    start_snapshot: int
    end_snapshot: int
    started_ms: int
    published_ms: int
    further: tuple[FurtherOutput, ...] = ()

    @property
    def snapshots(self) -> tuple[int, int]:
        """Numbers of the snapshots at the window's start and end."""
        return self.start_snapshot, self.end_snapshot

    def may_replace(self, standing: Publication) -> bool:
        """Whether it can have replaced another publication of the window: its revision is newer; or it is the same, the
        sink doesn't keep attempts apart, and this attempt began later."""
        later = not self.apart and self.started_ms > standing.started_ms
        return self.revision > standing.revision or (self.revision == standing.revision and later)

    def to_bytes(self) -> bytes:
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
            further = tuple(FurtherOutput(**output) for output in fields.pop("further"))
            return cls(**{name: value for name, value in fields.items() if name != "format"}, further=further)
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not a publication: {error!r}.") from error


def publication_file(number: int) -> str:
    return f"{number:08d}.json"


def publication_numbers(names: Iterable[str]) -> list[int]:
    """The publication numbers among some file names, in order."""
    return sorted(int(match[1]) for match in map(_FILE.fullmatch, names) if match)


def counting(publications: Iterable[Publication], live: Collection[int]) -> Publication | None:
    """The publication that counts: the newest of a revision that wasn't forgotten; None when there is none."""
    counting = (publication for publication in publications if publication.revision in live)
    return max(counting, key=lambda publication: publication.number, default=None)


def counts_over(current: Publication, manifest: Manifest, *, written_ms: int | None = None) -> bool:
    """Whether a publication keeps counting despite an attempt at a manifest. An older revision never replaces a newer
    one. If both have a place of their own, the rest of a window after a loss doesn't replace the whole window either.

    :param written_ms: when the attempt began, Unix milliseconds, if its rows have replaced those of others; None if
        they have a place of their own, or weren't written.
    """
    if current.revision != manifest.revision:
        same = written_ms is None and current.snapshots == manifest.snapshots
        return current.revision > manifest.revision or same
    return written_ms is None or current.started_ms >= written_ms
