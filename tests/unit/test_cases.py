"""The page of cases: each one has a test, each test that it names exists and names the case."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from dev import ROOT

PAGE = ROOT / "docs" / "development" / "cases.md"
ROW = re.compile(r"^\| ([ES]\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`([^`]+)`")
WINDOW_CASES = [*range(1, 16), 23, 24, 26, 27, 28, 34, 35, 36, 37, 40, 41, 42]
"""Of the cases E1 to E42 those that windows meet: times, retention, compaction, transactions, topics, partitions."""


def rows() -> dict[str, list[str]]:
    """The tests of each case, as the page names them."""
    return {case: TEST.findall(tests) for case, tests in ROW.findall(PAGE.read_text(encoding="utf-8"))}


@cache
def sources_of(file: str) -> dict[str, str]:
    """Source of each test in a file, by its name within it."""
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    lines = source.splitlines()

    def found(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, str]]:
        for each in node.body:
            if isinstance(each, ast.ClassDef):
                yield from found(each, f"{prefix}{each.name}::")
            elif isinstance(each, ast.FunctionDef) and each.name.startswith("test"):
                start = min([each.lineno, *(line.lineno for line in each.decorator_list)])
                yield f"{prefix}{each.name}", "\n".join(lines[start - 1 : each.end_lineno])

    return dict(found(ast.parse(source), ""))


def test_every_case_of_a_window_and_of_a_pinned_run_has_a_row() -> None:
    assert sorted(rows()) == sorted([*(f"E{each}" for each in WINDOW_CASES), *(f"S{each}" for each in range(1, 31))])


@pytest.mark.parametrize(("case", "named"), rows().items(), ids=rows())
def test_the_tests_of_a_case_exist_and_name_it(case: str, named: list[str]) -> None:
    assert named
    for test in named:
        file, _, name = test.partition("::")
        assert re.search(rf"\b{case}\b", sources_of(file).get(name, "")), f"{test} is not there, or doesn't name {case}"
