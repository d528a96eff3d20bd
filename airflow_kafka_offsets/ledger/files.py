"""The files of a pipeline's ledger: where they lie, and what the ledger needs of a store.

::

    log/00000/00000042.json                 commit 42: one or more entries, created exclusively, never changed
    checkpoints/00000040.json.gz            what commits 1 to 40 add up to; derived, may be deleted at any time
    snapshots/<sha256>.json.gz              the offsets of a snapshot; written before the commit that names it
    windows/<window>/<sha256>.json          a window's manifest; written before the commit that names it
    windows/<window>/<sha256>.records.json.gz   which of its offsets have a record, if that was counted
    windows/<window>/<attempt>/             what the driver of an attempt says: note, result, failure
    windows/<window>/audits/<run>.json      what an audit of a table has found; an entry names its hash
    files/window=<window>/                  the list of a window's published files, for other engines; derived
    batches/<sha256>.json                   the windows that one Spark application is to load
    drivers/                                what Spark's drivers run, when it is stored in the ledger
"""

from __future__ import annotations

import re
from typing import Protocol

LOG = "log"
CHECKPOINTS = "checkpoints"
SNAPSHOTS = "snapshots"
WINDOWS = "windows"
BATCHES = "batches"
AUDITS = "audits"
FOLDER_SIZE = 1_000
"""Commits in a folder of the log: as many as an object store lists in one answer."""
_COMMIT = re.compile(r"(\d{8})\.json", re.ASCII)
_FOLDER = re.compile(r"\d{5}", re.ASCII)


class Files(Protocol):
    """Files below a pipeline's folder, on any store; names are relative to it."""

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order; empty when there is no such folder."""

    def read(self, name: str) -> bytes | None:
        """A file's content; None when there is no such file."""

    def create(self, name: str, content: bytes) -> bool:
        """Create a file, unless it exists. Returns whether it holds exactly this content now."""

    def replace(self, name: str, content: bytes) -> None:
        """Create or replace a file that can be derived again."""


def folder_of(number: int) -> str:
    """The folder of a commit."""
    return f"{LOG}/{number // FOLDER_SIZE:05d}"


def commit_file(number: int) -> str:
    return f"{folder_of(number)}/{number:08d}.json"


def checkpoint_file(number: int) -> str:
    return f"{CHECKPOINTS}/{number:08d}.json.gz"


def snapshot_file(offsets: str) -> str:
    return f"{SNAPSHOTS}/{offsets}.json.gz"


def manifest_file(window: str, manifest: str) -> str:
    return f"{WINDOWS}/{window}/{manifest}.json"


def batch_file(sha256: str) -> str:
    return f"{BATCHES}/{sha256}.json"


def census_file(window: str, census: str) -> str:
    return f"{WINDOWS}/{window}/{census}.records.json.gz"


def attempt_folder(window: str, attempt: int) -> str:
    return f"{WINDOWS}/{window}/{attempt}"


def audit_file(window: str, run: str) -> str:
    """What an audit of a window has found."""
    return f"{WINDOWS}/{window}/{AUDITS}/{run}.json"


def audit_failure_file(window: str, run: str) -> str:
    """Why an audit of a window has failed, as its driver says."""
    return f"{WINDOWS}/{window}/{AUDITS}/{run}.failure.json"


def newest_commit(files: Files, at_least: int = 0) -> int:
    """Number of the newest commit that is listed; 0 for none. A store may list late, so there may be newer ones.

    :param at_least: the number of a commit that exists, if one is known: one listing is enough then, mostly.
    """
    last = _last_in(files, folder_of(at_least)) if at_least else 0
    if last and (last + 1) % FOLDER_SIZE:
        return last
    folders = filter(_FOLDER.fullmatch, reversed(files.names(LOG)))
    return next(filter(None, (_last_in(files, f"{LOG}/{folder}") for folder in folders)), 0)


def _last_in(files: Files, folder: str) -> int:
    matches = map(_COMMIT.fullmatch, reversed(files.names(folder)))
    return next((int(match[1]) for match in matches if match), 0)
