"""Programs of Debian and its kin, which are installed when one is missing and we may."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def install(what: str, *packages: str) -> bool:
    """Install packages by apt-get, where there is one and we are root.

    :param what: for people.
    :returns: whether it was tried. What it came to is seen by looking for the programs again.
    """
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return False
    print(f"{what} is missing: installing it with apt-get", file=sys.stderr)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with (Path(tempfile.gettempdir()) / "dev-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get doesn't wait for another one, such as a neighbouring test's
        for words in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-qq", *words], env=environment, capture_output=True)
    return True
