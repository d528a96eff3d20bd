"""The publication: which attempt of a window counts. Created by Airflow's side, exclusively, and read by everybody.

A window has one sequence of them for all its revisions, ``publications/00000001.json`` and on, in the folder of its
first one. The number alone is a file's name, so that of two publishers one creates it, and the other one looks again.
The newest one counts whose revision wasn't forgotten.
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

PUBLICATIONS = "publications"
"""Name of the folder, in the folder of a window's first revision."""
FORMAT = 1
ATTEMPT_NAME = re.compile(r"[A-Za-z0-9._+-]+")
"""What an attempt may be called: it names files and folders."""
OF_LOAD = "."
"""What follows it tells the attempts of one prepared load apart: its drivers, as a submitter may start several."""
_FILE = re.compile(r"(\d{8})\.json")


@dataclass(frozen=True, slots=True)
class FurtherOutput:
    """A further output of a published attempt, such as a job's dead letters; its name is what the job calls it, and the
    other fields are as those of the first one.
    """

    name: str
    output: str | None
    sink: str
    rows: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A published attempt of a window.

    :param number: its place in the window's sequence, from 1 on.
    :param revision: which revision of the window.
    :param attempt: the attempt's name.
    :param result_sha256: hash of the file with what the attempt counted.
    :param manifest_sha256: the manifest that it read.
    :param replaces: number of the publication that counted before; None for a window without one.
    :param rows: rows in the output.
    :param output: folder or table with them; None for an empty window.
    :param outside: those of the rows whose timestamp lies outside the window, kept apart in the output; None when the
        window's offsets alone say which rows are its own.
    :param sink: the output's kind: ``parquet``, ``orc``, ``json``, ``delta``, ``iceberg``, or what a sink of the user's
        own calls itself.
    :param apart: the sink keeps attempts apart; in the others, as a table, the rows of one take the others' place.
    :param start_snapshot: number of the snapshot at the window's start.
    :param end_snapshot: number of the one at its end.
    :param started_ms: when the attempt began, Unix milliseconds.
    :param published_ms: when it was created, Unix milliseconds.
    :param further: other outputs of the same attempt: published with it, or not at all.
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
        """Numbers of the snapshots that the window lies between."""
        return self.start_snapshot, self.end_snapshot

    def may_replace(self, standing: Publication) -> bool:
        """Whether it can have taken the place of another one of the window: it is of a newer revision; or of the same
        one, where its rows have, as its attempt began later."""
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
    """The numbers of the publications among some names, in order."""
    return sorted(int(match[1]) for match in map(_FILE.fullmatch, names) if match)


def counting(publications: Iterable[Publication], live: Collection[int]) -> Publication | None:
    """The publication that counts: the newest one of a revision that wasn't forgotten; None where there is none."""
    counting = (publication for publication in publications if publication.revision in live)
    return max(counting, key=lambda publication: publication.number, default=None)


def counts_over(current: Publication, manifest: Manifest, *, written_ms: int | None = None) -> bool:
    """Whether a publication goes on counting beside an attempt at a manifest: an older revision never takes a newer
    one's place; and what was left of a window after a loss not that of the whole, where both have their own place.

    :param written_ms: when the attempt began, Unix milliseconds, where its rows have taken the others' place; None
        where they have a place of their own, or weren't written.
    """
    if current.revision != manifest.revision:
        same = written_ms is None and current.snapshots == manifest.snapshots
        return current.revision > manifest.revision or same
    return written_ms is None or current.started_ms >= written_ms
