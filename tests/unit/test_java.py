"""Finding a Java that suits, and installing one; how packages are installed is in ``test_debian.py``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dev import debian, java

JAVA = """#!/bin/sh
echo 'openjdk version "{major}.0.2"' >&2
"""
APT_GET = """#!{python}
import pathlib, sys

if "openjdk-21-jre-headless" in sys.argv:
    java = pathlib.Path("{folder}") / "jvm" / "21" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text({java!r})
    java.chmod(0o755)
elif "install" in sys.argv:
    sys.exit(100)
"""
"""Only Java 21 is offered."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, where we are root."""
    programs = tmp_path / "bin"
    programs.mkdir()
    there = APT_GET.format(python=sys.executable, folder=tmp_path, java=JAVA.format(major=21))
    (programs / "apt-get").write_text(there)
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    for name in ("JAVA_HOME", "NO_APT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{tmp_path}/jvm/*",))
    monkeypatch.setattr(java, "java_home", java.java_home.__wrapped__)
    return tmp_path


def test_the_first_that_the_system_offers_is_installed(machine: Path) -> None:
    debian.provide([java.JAVA])
    assert java.java_home() == machine / "jvm" / "21"


def test_one_that_is_too_old_is_as_good_as_none(machine: Path) -> None:
    old = machine / "jvm" / "11" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text(JAVA.format(major=11))
    old.chmod(0o755)
    with pytest.raises(SystemExit, match=r"Java 17 to 21 is missing; .*JAVA_HOME"):
        java.java_home()
