"""Installing the system's programs: a program named apt-get takes the place of Debian's."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from dev import debian
from dev.debian import Program

APT_GET = """#!{python}
import fcntl, pathlib, sys

folder, words = pathlib.Path("{folder}"), " ".join(sys.argv[1:])
with (folder / "dev-apt.lock").open("w") as lock, (folder / "said").open("a") as said:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("without the lock:", words, file=said)
    except BlockingIOError:
        print("with the lock:", words, file=said)
    print((folder / "screen").read_text(), end="", file=(folder / "shown before").open("a"))
for package in sys.argv[1:]:
    if package.endswith("-not-offered"):
        sys.exit("E: Unable to locate package " + package)
    if package.startswith("offered-"):
        program = folder / "bin" / package.removeprefix("offered-")
        program.write_text("#!/bin/sh")
        program.chmod(0o755)
"""
"""Says what it was called with, whether its caller has the lock, and what the user had been told by then."""


def program(name: str, *choices: tuple[str, ...]) -> Program:
    def find() -> Path | None:
        found = shutil.which(name)
        return Path(found) if found else None

    return Program(name, "tests run on it", choices, find)


ALBERT = program("albert", ("albert-not-offered",), ("offered-albert",))
BERTA = program("berta", ("offered-berta", "offered-berta-tools"))
NOBODY = program("nobody", ("nobody-not-offered",))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with apt-get and without any of the programs, where we are root."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "apt-get").write_text(APT_GET.format(python=sys.executable, folder=tmp_path))
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("NO_APT", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def provide(machine: Path, programs: list[Program]) -> None:
    """What is tested, with its messages in a file that apt-get can look at."""
    with (machine / "screen").open("a") as screen, contextlib.redirect_stderr(screen):
        debian.provide(programs)


def calls(machine: Path) -> list[str]:
    """What apt-get was called with."""
    said = machine / "said"
    return said.read_text().splitlines() if said.exists() else []


class TestProvide:
    def test_installs_the_first_choice_that_is_offered(self, machine: Path) -> None:
        provide(machine, [ALBERT, BERTA])
        install = "with the lock: -qq install --yes --no-install-recommends"
        assert calls(machine) == [
            "with the lock: -qq update",
            f"{install} albert-not-offered",
            f"{install} offered-albert",
            f"{install} offered-berta offered-berta-tools",
        ]

    def test_says_what_and_why_before_the_first_call(self, machine: Path) -> None:
        provide(machine, [ALBERT, BERTA])
        shown = (machine / "shown before").read_text()
        assert shown.startswith(
            "albert is missing; tests run on it: installing albert-not-offered, or if that isn't offered offered-albert"
            " with apt-get\n"
            "berta is missing; tests run on it: installing offered-berta offered-berta-tools with apt-get\n"
            "(with NO_APT=1, make only says which packages to install)\n"
        )

    def test_what_could_not_be_installed_is_named(self, machine: Path) -> None:
        with pytest.raises(SystemExit, match=r"nobody is missing; .*: apt-get install nobody-not-offered") as ended:
            provide(machine, [BERTA, NOBODY])
        assert "berta" not in str(ended.value)


class TestInstallsNothing:
    def test_if_the_user_says_so(self, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_APT", "1")
        with pytest.raises(SystemExit, match=r"apt-get install offered-berta offered-berta-tools[^*]*NO_APT is set"):
            provide(machine, [BERTA])
        assert calls(machine) == []

    def test_for_somebody_who_is_not_root(self, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(SystemExit, match=r"albert is missing[^*]*berta is missing[^*]*this isn't root"):
            provide(machine, [ALBERT, BERTA])
        assert calls(machine) == []
