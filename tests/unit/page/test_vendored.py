"""The chart library is in the package as its authors have released it."""

from __future__ import annotations

import hashlib
import re

import pytest

from dev import ROOT

FOLDER = ROOT / "airflow_kafka_offsets" / "page" / "static" / "vendor" / "uplot"
NOTED = dict(re.findall(r"^\| `([\w.]+)` \| `([0-9a-f]{64})` \|$", (FOLDER / "README.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", sorted(each.name for each in FOLDER.iterdir() if each.name != "README.md"))
def test_each_file_is_the_one_that_was_noted(name: str) -> None:
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == NOTED[name]


def test_the_version_is_the_one_that_it_says_itself() -> None:
    said = re.match(
        rb"/\*! https://github.com/leeoniya/uPlot \(v([\d.]+)\) \*/", (FOLDER / "uPlot.iife.min.js").read_bytes()
    )
    assert said is not None
    assert (FOLDER / "README.md").read_text().startswith(f"# uPlot {said[1].decode()}\n")
