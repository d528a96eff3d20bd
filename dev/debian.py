"""Debian's packages, which are installed if a program is missing and we are root."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def install(what: str, *packages: str) -> bool:
    """Install packages with apt-get, if it exists and we are root.

    :param what: what is installed, for the message.
    :returns: whether it was tried. To see whether it worked, look for the programs again.
    """
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return False
    print(f"{what} is missing: installing it with apt-get", file=sys.stderr)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with (Path(tempfile.gettempdir()) / "dev-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get doesn't wait for another apt-get, such as a parallel test's
        for words in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-qq", *words], env=environment, capture_output=True)
    return True
