"""A ledger's files, listed and read as JSON, without using this package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from upath import UPath

from tests.chaos.judge import Times
from tests.chaos.replay import Replay, times_of

_COMMIT = re.compile(r"\d{5}/(\d{8})\.json")
_LIST = re.compile(r"window=(\w+)/files\.txt")


@dataclass(frozen=True, slots=True)
class Counted:
    """The file in which a driver says what it has counted.

    :param sha256: of its bytes.
    :param rows: how many rows it has written, over all partitions.
    :param output: where it has written them.
    :param manifest: hash of the manifest that it has read.
    """

    sha256: str
    rows: int
    output: str | None
    manifest: str


def replay(pipeline: UPath) -> Replay:
    """The log.

    :param pipeline: the pipeline's folder.
    """
    found = Replay()
    for match, content in sorted(_files(pipeline / "log", _COMMIT), key=lambda each: each[0][1]):
        found.add(int(match[1]), json.loads(content)["entries"])
    return found


def counted(pipeline: UPath, publication: Any) -> Counted | None:
    """What the driver of a publication has counted; None if there is no such file."""
    place = pipeline / "windows" / publication["window"] / str(publication["attempt"])
    try:
        content = pipeline.fs.cat_file((place / f"{publication['run']}.result.json").path)
    except FileNotFoundError:
        return None
    says = json.loads(content)
    rows = sum(each["count"] for each in says["written"])
    return Counted(sha256(content).hexdigest(), rows, says["outputs"][0]["output"], says["manifest_sha256"])


def lists(pipeline: UPath) -> dict[Times, list[str]]:
    """The files that each window's list names.

    :param pipeline: the pipeline's folder.
    """
    found = _files(pipeline / "files", _LIST)
    return {times_of(match[1]): content.decode().splitlines() for match, content in found}


def _files(folder: UPath, named: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    """The files below a folder whose relative paths match a pattern."""
    folder.fs.invalidate_cache()
    start = folder.path.rstrip("/") + "/"
    for each in folder.fs.find(folder.path):
        match = named.fullmatch(str(each).removeprefix(start))
        if match:
            yield match, folder.fs.cat_file(each)
