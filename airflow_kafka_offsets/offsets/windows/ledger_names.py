"""Names in a ledger: its identity, and which windows it has, in which revisions, and where.

::

    pipeline.json                                                     the ledger's identity
    windows/202611/                                                   the month of the window's start, UTC
      20261121T050000000Z_20261121T060000000Z/                        the window
      20261121T050000000Z_20261121T060000000Z.r2/                     its second revision
      20261121T050000000Z_20261121T060000000Z.r1.forgotten            its first revision no longer counts
      20261121T050000000Z_20261121T060000000Z.p2                      it has, or is about to get, a second publication
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import InstantError, IntervalError, LedgerCorruptError
from airflow_kafka_offsets.offsets.instants import compact_instant, iso_instant, parse_instant

_ID = r"\d{8}T\d{9}Z_\d{8}T\d{9}Z"
_WINDOW = re.compile(_ID, re.ASCII)
_MONTH = re.compile(r"\d{6}", re.ASCII)
_REVISION = re.compile(rf"({_ID})(?:\.r(\d+))?", re.ASCII)
_FORGOTTEN = re.compile(rf"({_ID})\.r(\d+)\.forgotten", re.ASCII)
_PUBLISHED_AGAIN = re.compile(rf"({_ID})\.p(\d+)", re.ASCII)
_KEPT = 20_000
"""How many windows' extents are cached: more than a year of hourly windows."""


def window_id(start_ms: int, end_ms: int) -> str:
    """The name of the window between two instants: ``20261121T050000000Z_20261121T060000000Z``.

    :raises IntervalError: when it is empty or inverted.
    """
    if start_ms >= end_ms:
        raise IntervalError(
            f"A window needs an end after its start; these are {iso_instant(start_ms)} and {iso_instant(end_ms)}."
        )
    return f"{compact_instant(start_ms)}_{compact_instant(end_ms)}"


@lru_cache(_KEPT)
def window_extent(name: str) -> tuple[int, int]:
    """A window's start and end in Unix milliseconds, from its name."""
    start, _, end = name.partition("_")
    return parse_instant(start), parse_instant(end)


def is_window(name: str) -> bool:
    """Whether a name has the form of a window's: two instants, the second one later."""
    return _WINDOW.fullmatch(name) is not None and _has_extent(name)


def _has_extent(name: str) -> bool:
    """Whether a name that looks like a window's is one: not all digits make an instant. Names sort as instants do."""
    start, _, end = name.partition("_")
    return start < end and _is_instant(start) and _is_instant(end)


def _is_instant(compact: str) -> bool:
    return compact[9:11] < "24" and compact[11:13] < "60" and compact[13:15] < "60" and _is_day(compact[:8])


@lru_cache(_KEPT)
def _is_day(day: str) -> bool:
    try:
        parse_instant(f"{day}T000000000Z")
    except InstantError:
        return False
    return True


def is_month(name: str) -> bool:
    return _MONTH.fullmatch(name) is not None


def month_of(window: str) -> str:
    """The folder for the month of a window: ``202611``."""
    return window[:6]


def pipeline_folder(folder: str) -> str:
    """The pipeline's folder, from the folder of a window: ``<pipeline's folder>/windows/<month>/<window>``."""
    return folder.rsplit("/", 3)[0]


def revision_folder(window: str, revision: int) -> str:
    return window if revision == 1 else f"{window}.r{revision}"


def forgotten_marker(window: str, revision: int) -> str:
    return f"{window}.r{revision}.forgotten"


def published_again_marker(window: str, number: int) -> str:
    """Name of the file that announces a window's second or later publication before it is created. Readers that cached
    an earlier publication learn from it that another one may count now."""
    return f"{window}.p{number}"


def last_publications(names: Iterable[str]) -> dict[str, int]:
    """The highest publication number that a window may have, for windows that may have several.

    :param names: names of what is in the folders of some months.
    """
    return {window: numbers[-1] for window, numbers in _numbers(_PUBLISHED_AGAIN, names).items()}


def revisions_of(names: Iterable[str]) -> dict[str, list[int]]:
    """All revisions by window, oldest first, including forgotten ones."""
    return _numbers(_REVISION, names)


def live_revisions(names: Iterable[str]) -> dict[str, list[int]]:
    """The revisions that count, oldest first, by window in order of time. Windows without any are absent."""
    every = list(names)
    forgotten = _numbers(_FORGOTTEN, every)
    live = {
        window: [number for number in numbers if number not in forgotten.get(window, ())]
        for window, numbers in sorted(revisions_of(every).items())
    }
    return {window: numbers for window, numbers in live.items() if numbers}


def _numbers(pattern: re.Pattern[str], names: Iterable[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for match in filter(None, map(pattern.fullmatch, names)):
        found[match[1]].append(int(match[2] or 1))
    return {window: sorted(numbers) for window, numbers in found.items() if _has_extent(window)}


PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""Valid names of pipelines: a name becomes a folder, and part of SQL and of table properties."""
LEDGER_ID = re.compile(r"[0-9a-f]{32}")
"""A ledger's id: hexadecimal, which none of Spark's default redaction patterns for secrets matches."""
PIPELINE = "pipeline.json"
"""File in the pipeline's folder that holds the ledger's identity."""
WINDOWS = "windows"
"""Folder in the pipeline's folder, with a folder for each month."""
DRIVERS = "drivers"
"""Folder in the pipeline's folder with what drivers run."""
ATTEMPTS = "attempts"
"""This and the following ones are folders in the folder of a window's revision, with a file for each attempt."""
APPLICATIONS = "applications"
"""With the note that each attempt's driver makes when it starts. Its Spark application is one part of that."""
RESULTS = "results"
FAILURES = "failures"
VERDICTS = "verified"
LOSSES = "losses"
"""With a file for each time that records were found deleted."""
PUBLICATIONS = "publications"
"""Only in the first revision's folder, for all revisions."""


@dataclass(frozen=True, slots=True)
class LedgerIdentity:
    """The identity of a ledger.

    :param ledger_id: created once, with the ledger.
    :param pipeline: its pipeline's name, for people; None when unknown.
    """

    ledger_id: str
    pipeline: str | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self | None:
        """From a JSON object or a table's properties; None when they have no valid id."""
        found, pipeline = fields.get("ledger_id"), fields.get("pipeline")
        if not isinstance(found, str) or not LEDGER_ID.fullmatch(found):
            return None
        named = isinstance(pipeline, str) and PIPELINE_NAME.fullmatch(pipeline)
        return cls(found, pipeline if named else None)

    @classmethod
    def of_pipeline(cls, fields: Mapping[str, Any] | None, uri: str) -> Self:
        """From ``pipeline.json``.

        :param fields: the file's content; None when there is no such file.
        :param uri: the file's address, for the message.
        :raises LedgerCorruptError: when the file is missing, or has no valid id.
        """
        found = cls.of(fields or {})
        if found is None:
            raise LedgerCorruptError(
                f"{uri} is missing or names no ledger_id. It distinguishes this ledger from others: restore "
                "the file as it was, from a backup or an earlier version of the object."
            )
        return found

    def __str__(self) -> str:
        return f"ledger {self.ledger_id}" + (f" (pipeline {self.pipeline})" if self.pipeline else "")


def json_object(content: bytes | None) -> dict[str, Any]:
    """A file's JSON object; empty when it is something else, or half written."""
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
