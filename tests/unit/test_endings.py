"""What tests share ends with the unit that asked for it, and is made anew for who asks afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY

CONFTEST = """
import pytest
from tests import endings

@pytest.fixture(scope="session")
def shared(request):
    endings.end_with_unit(request)
    print("made")
    yield
    print("ended")

@pytest.fixture(scope="module")
def of_module(shared):
    yield
    print("module ended")

@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or nextitem.path != item.path:
        endings.end(item.session)
"""


def test_in_every_order(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text("def test_1(of_module): ...\ndef test_2(shared): ...\n")
    (tmp_path / "test_b.py").write_text("def test_alone(): print('alone')\n")
    (tmp_path / "test_c.py").write_text("def test_late(shared): ...\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-qs",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    told = [
        line.lstrip(".") for line in run.stdout.splitlines() if "made" in line or "ended" in line or "alone" in line
    ]
    assert (run.returncode, told) == (0, ["made", "module ended", "ended", "alone", "made", "ended"])
