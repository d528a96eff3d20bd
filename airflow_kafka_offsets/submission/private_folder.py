"""A folder of this user alone, for files that Spark's Java runs: in it, nobody else can change them."""

from __future__ import annotations

import os
from pathlib import Path

_OTHERS_MAY_WRITE = 0o022


class NotPrivate(Exception):
    """Why a folder isn't used."""


def require_private(root: Path) -> None:
    """Make the folder, or refuse one in which others could change what Spark runs.

    :raises NotPrivate: saying which setting names another one.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_MAY_WRITE:
        raise NotPrivate(
            f"{root} belongs to another user, or others may write there, and could change what Spark runs. Set "
            "[kafka_offsets] jars_folder to a folder that only this user may write to: if it is missing, it is made."
        )
