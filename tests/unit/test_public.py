"""The public list: what it names is there, and what users are shown imports nothing else."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_kafka_offsets.public import PUBLIC
from dev import ROOT
from tests.integration.doc_blocks import PAGES, all_blocks

ERRORS = "airflow_kafka_offsets.errors"
OURS = "airflow_kafka_offsets"


def imported(source: str) -> set[tuple[str, str]]:
    """What of this package some code imports: places and names."""
    found = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ImportFrom) and each.module]
    return {
        (str(each.module), name.name)
        for each in found
        if str(each.module).partition(".")[0] == OURS
        for name in each.names
    }


def offered() -> set[tuple[str, str]]:
    return {(place, name) for place, modules in PUBLIC.items() for name in modules}


class TestList:
    @pytest.mark.parametrize("place", PUBLIC)
    def test_each_name_is_offered_and_has_a_docstring_or_a_value(self, place: str) -> None:
        module = importlib.import_module(place)
        assert sorted(PUBLIC[place]) == module.__all__
        for name in module.__all__:
            found = getattr(module, name)
            assert not (isinstance(found, type) or callable(found)) or found.__doc__, name

    @pytest.mark.parametrize("place", PUBLIC)
    def test_type_checkers_see_the_same_names_of_the_same_modules(self, place: str) -> None:
        file = importlib.import_module(place).__file__
        assert file is not None
        (typed,) = (each for each in ast.parse(Path(file).read_text("utf-8")).body if is_for_types(each))
        modules = {f"{OURS}.{module}": set[str]() for module in PUBLIC[place].values()}
        for name, module in PUBLIC[place].items():
            modules[f"{OURS}.{module}"].add(name)
        assert {
            str(each.module): {name.asname for name in each.names}
            for each in typed.body
            if isinstance(each, ast.ImportFrom)
        } == modules

    def test_what_is_not_on_it_is_not_there(self) -> None:
        with pytest.raises(ImportError, match="KafkaWaitSensor"):
            exec("from airflow_kafka_offsets import KafkaWaitSensor", {})

    def test_a_place_imports_a_module_only_when_a_name_of_it_is_used(self) -> None:
        code = (
            "import sys, airflow_kafka_offsets, airflow_kafka_offsets.client, airflow_kafka_offsets.spark\n"
            "print([each for each in ('airflow', 'kafka', 'pyspark') if each in sys.modules])"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


class TestUse:
    @pytest.mark.parametrize(
        "file", [*(ROOT / "dags").rglob("*.py"), *(ROOT / "docs").rglob("*.py")], ids=lambda file: str(file.name)
    )
    def test_the_dags_and_jobs_import_it_alone(self, file: Path) -> None:
        used = {each for each in imported(file.read_text(encoding="utf-8")) if each[0] != ERRORS}
        assert used <= offered()

    def test_so_does_the_code_in_the_docs(self) -> None:
        blocks = [block for page in PAGES for block in all_blocks(page) if block.language == "python"]
        used = {each for block in blocks for each in imported(block.code) if each[0] != ERRORS}
        assert used <= offered()
        assert len(used) > 20
