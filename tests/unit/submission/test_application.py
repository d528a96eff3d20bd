"""The parts of this package that a driver gets, on a machine that has nothing else."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_kafka_offsets.submission.application import bundle

FOLDS = """
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.entries import Attempted, Created, Pinned
from airflow_kafka_offsets.ledger.load_decisions import begin
from airflow_kafka_offsets.ledger.log import Log

class Files(dict):
    def names(self, folder):
        inside = (name.removeprefix(folder + "/") for name in self if name.startswith(folder + "/"))
        return sorted({name.partition("/")[0] for name in inside})
    def read(self, name):
        return self.get(name)
    def create(self, name, content):
        return self.setdefault(name, content) == content
    replace = dict.__setitem__

files, window = Files(), "20261121T050000000Z_20261121T060000000Z"
writer = Log(files, "here")
writer.change(lambda state: (Created("id", "p", "c", "read_committed", ("t",)), Pinned(window, "sha", 5)))
for _ in range(60):  # past a checkpoint
    writer.change(lambda state: begin(state, Attempted(window, {"task_id": "load"}), "sha"))
found = Log(files, "here", at_least=61).read().windows[window]
print(found.newest_attempt.number, AttemptFiles(files, window, 61).runs())
"""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The bundle, as a driver has it."""
    file = tmp_path / "bundle.zip"
    file.write_bytes(bundle())
    return file


def run(code: str, stored: Path) -> str:
    """What a program prints that has the bundle, and Python without any package installed."""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(stored)!r})\n{code}"]
    answer = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_a_driver_reads_the_ledgers_log_with_nothing_else_installed(stored: Path) -> None:
    assert run(FOLDS, stored) == "61 {}\n"


def test_each_module_of_sparks_side_imports_nothing_else_that_a_cluster_may_lack(stored: Path) -> None:
    """PySpark, where it runs Spark; Protobuf's columns need two packages more."""
    files = [name for name in zipfile.ZipFile(stored).namelist() if "/spark/" in name or "/offsets/" in name]
    names = [name.removesuffix(".py").replace("/", ".") for name in files]
    assert "airflow_kafka_offsets.spark.load" in names
    code = f"""
import importlib
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        needed = ("pyarrow", "google") if name.endswith(".protobuf_columns") else ("pyspark", "py4j")
        assert error.name.partition(".")[0] in needed and ".spark" in name, (name, error.name)
print("all")
"""
    assert run(code, stored) == "all\n"


def test_all_of_it_runs_on_python_3_10(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        archive.extractall(tmp_path)
    vermin = [Path(sys.executable).with_name("vermin"), "--target=3.10-", "--no-tips", "--violations", str(tmp_path)]
    found = subprocess.run(vermin, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    assert "Minimum required versions: 3.10" in found.stdout


def test_the_same_package_gives_the_same_bytes() -> None:
    assert bundle() == bundle()
