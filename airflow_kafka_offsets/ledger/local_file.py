"""A local file that is created whole or not at all, by one of two racing writers: a hard link arbitrates."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from uuid import uuid4

from airflow_kafka_offsets.errors import ExclusiveCreateError

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""What file systems say that have nothing to sync of a folder."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


def create_local(path: Path, content: bytes) -> None:
    """Write beside, then link: a link is atomic, and fails when the name is taken.

    :raises FileExistsError: when the name is taken.
    :raises ExclusiveCreateError: when the disk has no hard links.
    """
    _make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
        _sync(path.parent)
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise ExclusiveCreateError(
                f"The disk of {path} has no hard links, by which files are created exclusively there. Put the ledger "
                "on another one, or on an object store."
            ) from error
        raise
    finally:
        draft.unlink(missing_ok=True)


def replace_local(path: Path, content: bytes) -> None:
    """Write beside, then rename over what is there."""
    _make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_bytes(content)
    draft.replace(path)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they outlast a power cut as the file in them does."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    """Have a folder's names on the disk: a file's own sync doesn't promise its name."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(place)
