"""A ledger's files as they lie there: listed and read as JSON. Nothing of this package says what they mean."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import datetime
from hashlib import sha256
from typing import Any

from upath import UPath

from tests.chaos.judge import Times
from tests.chaos.publications import Counted, Shelf

_FILE = re.compile(r"\d{6}/(\w+)(?:\.r(\d+))?/(?:(publications|results)/([^/]+)\.json|manifest\.json)")
"""Window, revision, folder and name."""
_FORGOTTEN = re.compile(r"\d{6}/(\w+)\.r(\d+)\.forgotten")


def shelves(pipeline: UPath) -> dict[Times, Shelf]:
    """What there is of each window.

    :param pipeline: the pipeline's folder.
    """
    found: dict[Times, dict[str, Any]] = defaultdict(lambda: defaultdict(dict))
    for name, content in _files(pipeline / "windows").items():
        forgotten = _FORGOTTEN.fullmatch(name)
        if forgotten:
            found[_times(forgotten[1])]["forgotten"][int(forgotten[2])] = content
            continue
        match = _FILE.fullmatch(name)
        assert match, name
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


def _files(folder: UPath) -> dict[str, bytes]:
    """The contents of those files that are looked at, by path from the folder on."""
    folder.fs.invalidate_cache()
    start = folder.path.rstrip("/") + "/"
    names = [str(each).removeprefix(start) for each in folder.fs.find(folder.path)]
    wanted = [each for each in names if _FILE.fullmatch(each) or _FORGOTTEN.fullmatch(each)]
    return {each: folder.fs.cat_file(start + each) for each in wanted}


def _counted(content: bytes) -> Counted | None:
    """None where its writer died halfway through."""
    try:
        says = json.loads(content)
    except ValueError:
        return None
    rows = sum(each["count"] for each in says["written"])
    return Counted(sha256(content).hexdigest(), rows, says["output"], says["manifest_sha256"])


def _times(window: str) -> Times:
    start, end = (datetime.strptime(f"{each[:-1]}+0000", "%Y%m%dT%H%M%S%f%z") for each in window.split("_"))
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000)
