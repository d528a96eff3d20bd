"""Setting up an environment: an empty one, in which modules and programs named pip and uv say what they are asked."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from dev import ROOT

JAVA = "#!/bin/sh\necho 'openjdk version \"17.0.2\"' >&2\n"
PIP = """
import os, pathlib, sys

folder = pathlib.Path(os.environ["FOLDER"])
with (folder / "asked").open("a") as asked:
    print("pip", *sys.argv[1:], file=asked)
if "uv" in sys.argv:
    if not (folder / "has uv").exists():
        sys.exit("no uv for this machine")
    uv = pathlib.Path(sys.prefix) / "bin" / "uv"
    uv.write_text('#!/bin/sh\\necho uv "$@" >> "$FOLDER/asked"\\ntest ! -e "$FOLDER/offline"\\n')
    uv.chmod(0o755)
"""
PINS = "--constraint dev/constraints.txt"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with Java and an empty environment."""
    venv.create(tmp_path / "venv", with_pip=False)
    for name, text in {"modules/pip/__main__.py": PIP, "java/bin/java": JAVA}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)
    return tmp_path


def install(machine: Path, group: str, **variables: str) -> subprocess.CompletedProcess[str]:
    python = machine / "venv" / "bin" / "python"
    without = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE_DIR")}
    named = {"FOLDER": str(machine), "PYTHONPATH": str(machine / "modules"), "JAVA_HOME": str(machine / "java")}
    return subprocess.run(
        [python, "-m", "dev.install", group], cwd=ROOT, env=without | named | variables, capture_output=True, text=True
    )


def asked(machine: Path) -> list[str]:
    """What pip and uv were asked, without the words that say how."""
    how = ("--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-cache", "--python")
    lines = (machine / "asked").read_text().splitlines()
    python = str(machine / "venv" / "bin" / "python")
    return [" ".join(word for word in line.split() if word not in (*how, python)) for line in lines]


class TestInstall:
    def test_uv_does_it_and_pyspark_comes_first(self, machine: Path) -> None:
        (machine / "has uv").touch()
        assert install(machine, "dev").returncode == 0
        assert asked(machine) == [
            f"pip install uv {PINS}",
            f"uv pip install pyspark {PINS}",
            f"uv pip install --editable . --group dev {PINS}",
        ]

    def test_pip_does_it_where_there_is_no_uv(self, machine: Path) -> None:
        assert install(machine, "dev").returncode == 0
        assert asked(machine) == [
            f"pip install uv {PINS}",
            "pip install --upgrade pip>=25.1",
            f"pip install pyspark {PINS}",
            f"pip install --editable . --group dev {PINS}",
        ]

    @pytest.mark.parametrize("group", ["demo", "dev"])
    def test_it_says_first_what_it_downloads_and_where_to(self, machine: Path, group: str) -> None:
        answer = install(machine, group)
        assert answer.stdout.startswith("This downloads about ")
        assert all(word in answer.stdout.splitlines()[0] for word in ("MB", ".venv/", ".local/"))

    def test_it_downloads_nothing_if_java_is_too_old_and_stays_so(self, machine: Path) -> None:
        (machine / "java" / "bin" / "java").write_text(JAVA.replace("17", "11"))
        code = (
            "import dev.java; dev.java.USUAL_PLACES = (); import runpy, sys; sys.argv[1:] = ['dev'];"
            " runpy.run_module('dev.install', run_name='__main__')"
        )
        variables = {"FOLDER": str(machine), "PYTHONPATH": str(machine / "modules"), "NO_APT": "1", "PATH": ""}
        variables["JAVA_HOME"] = str(machine / "java")
        python = [machine / "venv" / "bin" / "python", "-c", code]
        answer = subprocess.run(python, cwd=ROOT, env=variables, capture_output=True, text=True)
        assert answer.returncode != 0
        assert "Java 17 to 21 is missing" in answer.stderr
        assert "NO_APT is set" in answer.stderr
        assert not (machine / "asked").exists()

    def test_a_failure_says_what_failed_and_what_to_do(self, machine: Path) -> None:
        for name in ("has uv", "offline"):
            (machine / name).touch()
        answer = install(machine, "dev")
        assert answer.returncode != 0
        assert "pyspark" in answer.stderr
        assert answer.stderr.strip().endswith("check the network, and run make again.")


def test_this_python_has_what_the_set_up_imports() -> None:
    """It runs before anything is installed: ``-S`` leaves the installed packages out."""
    assert subprocess.run([sys.executable, "-S", "-c", "import dev.install, dev.programs"], cwd=ROOT).returncode == 0
