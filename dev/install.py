"""Installs a dependency group of pyproject.toml: ``python -m dev.install demo``, with the Python of ``.venv/``.

uv does it, which is first installed by pip; if it can't be had, pip does all. PySpark comes first, because it is most
of the download and contains Ivy, which then fetches the demo's jars while the other packages are installed.

Only the standard library is used here: there is nothing else yet.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from dev import ROOT, debian
from dev.java import JAVA

VENV = Path(sys.prefix)
DOWNLOADS = {
    "demo": "600 MB of Python packages (430 of them PySpark) into .venv/, and 100 MB of jars (Kafka, Spark's connector)"
    " into .local/; they take 1.3 GB",
    "dev": "900 MB of Python packages (430 of them PySpark) into .venv/, where they take 1.8 GB; tests fetch 250 MB of"
    " jars into .local/ when they need them",
}
"""What a group downloads, by its name."""
_PINS = ["--constraint", "dev/constraints.txt"]
_TOLD_EVERY_S = 10.0
"""How often a step says that it goes on."""


def main(group: str) -> None:
    """Say what is downloaded, see that there is Java, and install.

    :param group: ``demo`` or ``dev``.
    """
    print(f"This downloads about {DOWNLOADS[group]}.", flush=True)
    print("What is there already isn't downloaded again. Nothing is changed outside this folder", end="", flush=True)
    print(", unless a line below says so." if JAVA.find() is None else ".", flush=True)
    debian.provide([JAVA])
    installer = _installer()
    _run([*installer, "pyspark", *_PINS], "PySpark, most of the download")
    command = [sys.executable, "-m", "dev.demo_jars"]
    jars = subprocess.Popen(command, cwd=ROOT, process_group=0) if group == "demo" else None
    try:
        _run([*installer, "--editable", ".", "--group", group, *_PINS], "all other packages")
    except BaseException:
        if jars is not None and jars.poll() is None:
            os.killpg(jars.pid, signal.SIGTERM)  # with the Java that it has started
            jars.wait()
        raise
    if jars is not None and _ended(jars, "jars of Kafka and of Spark's connector") != 0:
        sys.exit("The jars are missing: see above.")


def _installer() -> list[str]:
    """The command that installs packages: uv's if there is one for this machine, else pip's."""
    # Unless the user has named a cache, nothing stays but what is installed: uv's would take 1.9 GB.
    cached = [] if os.environ.get("PIP_CACHE_DIR") else ["--no-cache-dir"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *cached]
    if subprocess.run([*pip, "uv", *_PINS], cwd=ROOT).returncode == 0:  # some seconds
        cached = [] if os.environ.get("UV_CACHE_DIR") else ["--no-cache"]
        return [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", sys.executable, *cached]
    print("uv can't be installed; pip takes some minutes longer", flush=True)
    _run([*pip, "--upgrade", "pip>=25.1"], "pip")  # the first that knows dependency groups
    return pip


def _run(command: list[str], what: str) -> None:
    # Temporary files lie beside what is installed: uv links them, and /tmp may be small.
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | {"TMPDIR": str(VENV)}) as process:
        try:
            code = _ended(process, what)
        except BaseException:
            process.kill()
            raise
    if code != 0:
        sys.exit(f"{' '.join(command)} failed: see above, check the network, and run make again.")


def _ended(process: subprocess.Popen[bytes], what: str) -> int:
    """Wait for a step, and say every few seconds that it goes on. Returns its exit code."""
    begun_s = time.monotonic()
    while True:
        try:
            code = process.wait(_TOLD_EVERY_S)
        except subprocess.TimeoutExpired:
            print(f"  {what}: {time.monotonic() - begun_s:.0f} s so far", flush=True)
        else:
            done = f"done in {time.monotonic() - begun_s:.0f} s" if code == 0 else "failed"
            print(f"  {what}: {done}", flush=True)
            return code


if __name__ == "__main__":
    main(sys.argv[1])
