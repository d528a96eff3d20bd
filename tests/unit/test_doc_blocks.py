"""What the docs show beside code and commands: commits and connections that load, texts that are as the code has them.

Code and commands are run by tests/integration. A block that neither they nor this file know fails here.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.errors import FailedWindow, WindowsFailedError
from airflow_kafka_offsets.ledger import log
from airflow_kafka_offsets.ledger.log import CommitFile
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.operators.alerts import alert
from dev import ROOT
from dev.demo import PROVED, Day, table_of
from tests.integration.doc_blocks import PAGES, Block, all_blocks, name_of
from tests.integration.ledger import loads
from tests.unit.offsets.proof.results import run_result, tally_of
from tests.unit.spark.manifests import manifest_of

BLOCKS = [block for page in PAGES for block in all_blocks(page)]
RUN_ELSEWHERE = {"python", "sh", "console", "sql"}
"""By ``tests/integration/{client,airflow,spark}``: each runs all that the pages have."""


def _demos_table(shown: str) -> None:
    row = re.compile(r"^ +([\d-]+)( again)? +(\d+) +(\d+) +(\d+) +equal +(.+?) +([\d.]+)$", re.MULTILINE)
    days = [
        Day(
            date.fromisoformat(day),
            {},
            {"offsets": int(offsets), "read": int(read), "written": int(written), "verdict": PROVED, "tiling": tiling},
            float(seconds),
            again=bool(again),
        )
        for day, again, offsets, read, written, tiling, seconds in row.findall(shown)
    ]
    page = io.StringIO()
    Console(file=page, width=110).print(table_of(days))
    _title, _, *printed = map(str.strip, page.getvalue().strip().splitlines())
    assert len(days) == 4
    assert printed == [line.strip() for line in shown.splitlines()]


def _layers(shown: str) -> None:
    """Those of the first contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [layer.replace("airflow_kafka_offsets.", "").split(" | ") for layer in contracts[0]["layers"]]
    assert [[word.removesuffix(".py") for word in line.split()] for line in shown.splitlines()] == layers


def _folders_of_tests(shown: str) -> None:
    places = [line.split()[0] for line in shown.splitlines()]
    assert all((ROOT / place).exists() or (ROOT / "tests" / "integration" / place).exists() for place in places)


def _jaas(shown: str) -> None:
    """Java reads it."""
    assert re.fullmatch(r'KafkaClient \{\n +[\w.]+ required\n(?: +(?:\w+=(?:\w+|"[^"]+") ?)+;?\n)+\};\n', shown)


def _unproved(shown: str) -> None:
    manifest = manifest_of([("flights", 0, 0, 98)])
    verdict = judge(manifest, run_result(manifest, [tally_of("flights", 0, range(49))], read=Tally(98)))
    assert str(verdict).startswith(shown.partition("can't be published: ")[2].strip().removesuffix("…"))


def _failed_windows(shown: str) -> None:
    _title, _header, row = shown.splitlines()
    window, pipeline, error, why = re.split(r" {2,}", row, maxsplit=3)
    failed = FailedWindow(window, pipeline, getattr(errors, error)(why))
    assert f"WindowsFailedError: {WindowsFailedError([failed], 2)}" == shown.rstrip()


def _alarms(shown: str) -> None:
    title, _header, *rows = shown.splitlines()
    cells = [re.split(r" {2,}", row, maxsplit=2) for row in rows]
    alarmed = {group: Progress(False, words, {"alarms": alarms.split(", ")}) for group, alarms, words in cells}
    (of,) = re.findall(r"of (\d+) groups", title)
    assert str(alert(alarmed, int(of))) == shown.rstrip()


TEXTS: dict[tuple[str, int], Callable[[str], None]] = {
    ("README.md", 1): _demos_table,
    ("CONTRIBUTING.md", 1): _layers,
    ("CONTRIBUTING.md", 2): _folders_of_tests,
    ("docs/guides/loads.md", 1): _failed_windows,
    ("docs/guides/loads.md", 3): _unproved,
    ("docs/guides/metrics.md", 1): _alarms,
    ("docs/reference/connections.md", 1): _jaas,
}
"""What a block of text is compared by; page and number."""

COMPARED_ELSEWHERE = {
    ("docs/guides/loads.md", 2): "tests/integration/airflow/test_spark_progress.py",
    ("docs/reference/ledger.md", 1): "below",
}


def in_language(language: str) -> Any:
    return pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == language], ids=name_of)


@pytest.mark.parametrize(
    "block", [each for each in BLOCKS if each.language == "text" and each.key not in COMPARED_ELSEWHERE], ids=name_of
)
def test_a_text_is_as_the_code_has_it(block: Block) -> None:
    TEXTS[block.key](block.code)


@in_language("json")
def test_json_is_a_commit_or_a_connections_extra(block: Block) -> None:
    told = json.loads(block.code)
    if block.page == "docs/reference/ledger.md":
        assert json.loads(CommitFile.from_bytes(block.code.encode()).to_bytes()) == told
    else:
        assert ClientSettings.from_config(told).bootstrap_servers


def test_every_block_is_of_a_language_that_a_test_knows() -> None:
    assert {block.language for block in BLOCKS} <= RUN_ELSEWHERE | {"text", "json"}
    assert {block.key for block in BLOCKS if block.language == "text"} == TEXTS.keys() | COMPARED_ELSEWHERE.keys()


def test_no_fence_is_overlooked() -> None:
    """Whatever way it is fenced, or indented."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        printed = sum(block.printed is not None for block in all_blocks(page))
        assert len(re.findall(r"^\s*>?\s*(?:`{3,}|~{3,})", text, re.MULTILINE)) == 2 * (len(all_blocks(page)) + printed)


def shape(path: str) -> str:
    """A file's path, with words for what differs from ledger to ledger."""
    for pattern, stands in {
        r"\d{8}T\d{9}Z": "<instant>",
        r"\b[0-9a-f]{64}\b": "<sha256>",
        r"\b\d{8}(?=\.json)": "<number>",
        r"\b\d{5}/": "<folder>/",
        r"\b\d+/(?=ended|[0-9a-f]{8}\.)": "<attempt>/",
        r"\b[0-9a-f]{8}(?=\.(note|result|failure))": "<run>",
    }.items():
        path = re.sub(pattern, stands, path)
    return path


def test_a_ledger_has_no_file_that_the_page_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree,) = (block for block in BLOCKS if block.page == "docs/reference/ledger.md" and block.language == "text")
    shown, folder = set(), ""
    for line in tree.code.splitlines()[1:]:
        if line.startswith("    "):
            shown.add(shape(f"{folder}{line.strip()}"))
        else:
            folder = line.strip()
            shown.add(shape(folder))
    monkeypatch.setattr(log, "_MOST_SINCE", 2)
    ledger = loads.new_ledger(tmp_path)
    for hour in range(2):
        loads.load(ledger, hour)
    loads.begin(ledger, loads.resolve(ledger, 2))
    found = {shape(str(path.relative_to(tmp_path / "loads"))) for path in tmp_path.rglob("*") if path.is_file()}
    assert len(found) == 6
    assert found <= shown
