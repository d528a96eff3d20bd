"""The built wheel, installed into a clean environment: what a user gets, and what Airflow discovers in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from dev import ROOT

# A clean environment is a whole Airflow installation.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)], check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment with the wheel in it, and nothing of this checkout."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home / "venv")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "venv"), "install", "--quiet"]
    # A tenth of what is installed is ever imported here.
    command = [*pip, "--no-compile", "-c", str(ROOT / "dev" / "constraints.txt"), str(wheel)]
    subprocess.run(command, check=True)
    return home / "venv" / "bin"


def printed(installed: Path, program: str, *words: str) -> str:
    """What a program prints there."""
    home = installed.parent.parent
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    variables |= {"AIRFLOW_HOME": str(home / "airflow"), "COLUMNS": "200"}
    command = [installed / program, *words]
    run = subprocess.run(command, env=variables, cwd=home, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


class TestWheel:
    def test_it_holds_the_package_its_types_and_its_licence_and_nothing_else(self, wheel: Path) -> None:
        names = zipfile.ZipFile(wheel).namelist()
        assert "airflow_kafka_offsets/py.typed" in names
        assert any(name.endswith("licenses/LICENSE") for name in names)
        assert any(name.endswith("licenses/airflow_kafka_offsets/page/static/vendor/uplot/LICENSE") for name in names)
        tops = {name.split("/")[0] for name in names}
        assert tops == {"airflow_kafka_offsets", next(top for top in tops if top.endswith(".dist-info"))}


@pytest.mark.nightly(
    "installs a whole Airflow; the wheel's names are compared above, and tests run what make setup installs"
)
class TestInstalled:
    def test_airflow_discovers_the_provider(self, installed: Path) -> None:
        providers = json.loads(printed(installed, "airflow", "providers", "list", "-o", "json"))
        ours = [each for each in providers if each["package_name"] == "airflow-kafka-offsets"]
        assert [each["version"] for each in ours] == ["0.1.0"]

    def test_the_connection_type_and_its_hook_are_there(self, installed: Path) -> None:
        hooks = json.loads(printed(installed, "airflow", "providers", "hooks", "-o", "json"))
        ours = [each for each in hooks if each["connection_type"] == "kafka_offsets"]
        assert [each["class"] for each in ours] == ["airflow_kafka_offsets.hooks.kafka_offsets.KafkaOffsetsHook"]

    def test_the_page_is_found_and_has_its_files(self, installed: Path, wheel: Path) -> None:
        plugins = json.loads(printed(installed, "airflow", "plugins", "-o", "json"))
        assert [each["name"] for each in plugins if "airflow-kafka-offsets" in each["source"]] == ["kafka_windows"]
        static = ROOT / "airflow_kafka_offsets" / "page" / "static"
        files = {str(each.relative_to(ROOT)) for each in static.rglob("*") if each.is_file()}
        held = set(zipfile.ZipFile(wheel).namelist())
        assert {"uPlot.iife.min.js", "uPlot.min.css", "LICENSE", "page.js"} <= {
            file.rpartition("/")[2] for file in files
        }
        assert files <= held

    def test_the_commands_are_there(self, installed: Path) -> None:
        assert {"list", "lag", "ledger"} <= set(printed(installed, "kafka-offsets", "--help").split())

    def test_every_module_named_in_the_provider_info_imports(self, installed: Path) -> None:
        code = """
import importlib
from airflow_kafka_offsets.get_provider_info import get_provider_info
info = get_provider_info()
for kind in ("hooks", "sensors", "triggers", "operators"):
    for each in info[kind]:
        for module in each["python-modules"]:
            importlib.import_module(module)
print("ok")
"""
        home = installed.parent.parent
        run = subprocess.run([installed / "python", "-c", code], cwd=home, capture_output=True, text=True, check=False)
        assert run.stdout.split()[-1:] == ["ok"], run.stderr
