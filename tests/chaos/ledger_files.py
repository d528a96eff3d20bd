"""A ledger's files, listed and read as JSON, without using this package."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any

from upath import UPath

from tests.chaos.judge import Times
from tests.chaos.publications import Counted, Shelf

_FILE = re.compile(r"\d{6}/(\w+)(?:\.r(\d+))?/(?:(publications|results)/([^/]+)\.json|manifest\.json)")
"""Window, revision, folder and name."""
_FORGOTTEN = re.compile(r"\d{6}/(\w+)\.r(\d+)\.forgotten")
_LIST = re.compile(r"window=(\w+)/files\.txt")


def shelves(pipeline: UPath) -> dict[Times, Shelf]:
    """The files of each window.

    :param pipeline: the pipeline's folder.
    """
    found: dict[Times, dict[str, Any]] = defaultdict(lambda: defaultdict(dict))
    for match, content in _files(pipeline / "windows", _FORGOTTEN):
        found[_times(match[1])]["forgotten"][int(match[2])] = content
    for match, content in _files(pipeline / "windows", _FILE):
        shelf, revision, folder = found[_times(match[1])], int(match[2] or 1), match[3]
        if folder == "publications":
            shelf["publications"][int(match[4])] = json.loads(content)
        elif folder == "results":
            counted = _counted(content)
            if counted is not None:
                shelf["results"][revision, match[4]] = counted
        else:
            shelf["manifests"][revision] = sha256(content).hexdigest()
    return {window: Shelf(**shelf) for window, shelf in sorted(found.items())}


def lists(pipeline: UPath) -> dict[Times, list[str]]:
    """The files that each window's list names.

    :param pipeline: the pipeline's folder.
    """
    found = _files(pipeline / "files", _LIST)
    return {_times(match[1]): content.decode().splitlines() for match, content in found}


def _files(folder: UPath, named: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    """The files below a folder whose relative paths match a pattern."""
    folder.fs.invalidate_cache()
    start = folder.path.rstrip("/") + "/"
    for each in folder.fs.find(folder.path):
        match = named.fullmatch(str(each).removeprefix(start))
        if match:
            yield match, folder.fs.cat_file(each)


def _counted(content: bytes) -> Counted | None:
    """None if its writer died halfway through."""
    try:
        says = json.loads(content)
    except ValueError:
        return None
    rows = sum(each["count"] for each in says["written"])
    return Counted(sha256(content).hexdigest(), rows, says["output"], says["manifest_sha256"])


def _times(window: str) -> Times:
    start, end = (datetime.strptime(f"{each[:-1]}+0000", "%Y%m%dT%H%M%S%f%z") for each in window.split("_"))
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000)
