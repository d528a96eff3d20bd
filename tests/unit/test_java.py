"""Installing a missing Java: a program named apt-get takes the place of Debian's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dev import java

APT_GET = """#!{python}
import fcntl, pathlib, sys

folder, words = pathlib.Path("{folder}"), " ".join(sys.argv[1:])
with (folder / "dev-apt.lock").open("w") as lock, (folder / "said").open("a") as said:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("without the lock:", words, file=said)
    except BlockingIOError:
        print("with the lock:", words, file=said)
if "openjdk-21" not in words:
    sys.exit(100)
java = folder / "jvm" / "21" / "bin" / "java"
java.parent.mkdir(parents=True)
java.write_text("#!/bin/sh\\necho 'openjdk version \\"21.0.2\\"' >&2\\n")
java.chmod(0o755)
"""
"""Says what it was called with, and whether its caller has the lock. Only Java 21 is offered."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, where we are root."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "apt-get").write_text(APT_GET.format(python=sys.executable, folder=tmp_path))
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{tmp_path}/jvm/*",))
    monkeypatch.setattr(java, "_java", java._java.__wrapped__)
    return tmp_path


class TestInstall:
    def test_takes_the_first_that_is_offered_and_no_two_install_at_a_time(self, machine: Path) -> None:
        assert java.java_home() == machine / "jvm" / "21"
        said = (machine / "said").read_text().splitlines()
        assert {line.partition(":")[0] for line in said} == {"with the lock"}
        assert said[-1].endswith("install --yes --no-install-recommends openjdk-21-jre-headless")

    def test_somebody_who_is_not_root_is_told_what_to_install(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(SystemExit, match="apt-get install openjdk-17-jre-headless"):
            java.java_home()
        assert not (machine / "said").exists()
