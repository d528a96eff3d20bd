"""The page of cases: tests name each of its ids, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dev import ROOT

PAGE = (ROOT / "docs" / "development" / "cases.md").read_text(encoding="utf-8")
ROW = re.compile(r"^- ([ES]\d+): ", re.MULTILINE)
ID = re.compile(r"\b[ES]\d{1,2}\b")
THIS = Path(__file__)


def sources_of_tests(file: Path) -> Iterator[str]:
    """Each test function of a file with its decorators, and the docstring of each class."""
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            start = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield "\n".join(lines[start - 1 : node.end_lineno])
        elif isinstance(node, ast.ClassDef):
            yield ast.get_docstring(node) or ""


def test_each_case_is_named_by_a_test_and_each_that_is_named_is_a_case() -> None:
    cases = ROW.findall(PAGE)
    assert len(cases) == len(set(cases)) == 71
    files = [each for each in (ROOT / "tests").rglob("test_*.py") if each != THIS]
    named = {case for file in files for source in sources_of_tests(file) for case in ID.findall(source)}
    assert named - {"S3"} == set(cases) - {"S3"}  # S3 is a store, too
