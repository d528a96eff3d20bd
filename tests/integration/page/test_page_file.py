"""The page as a file: what ``ledger show --html`` writes needs no server, and says what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.page.file import page_file
from tests.integration.ledger.loads import window
from tests.integration.page.conftest import RECORD_CONTENT, As

KEPT = re.compile(r"globalThis\.kept = (.+?);if \(!location", re.DOTALL)


@pytest.fixture(scope="module")
def html(root: str) -> str:
    return page_file(Ledger(ObjectStoragePath(root), "troubled"), window(3))


def kept(html: str) -> dict[str, Any]:
    found = KEPT.search(html)
    assert found is not None
    return dict(json.loads(found[1]))


def test_it_has_the_answers_that_the_page_asks_for(html: str, log_in: As) -> None:
    answers = kept(html)
    assert len(answers) == 10
    for path, answer in answers.items():
        if path == "pipelines":
            continue
        served = log_in("viewer").get(f"/api/{path}").json()
        served.pop("asks_kafka", None)
        served.pop("schedules", None)
        for attempt in served.get("attempts", ()):
            (attempt["failure"] or {}).pop("message", None)  # the file may be sent to anybody
        for each in (answer, served):
            each.pop("read_ms")
            each.pop("now_ms")
        assert answer == served | ({"more": False} if "more" in served else {}), path
    assert [row["pipeline"] for row in answers["pipelines"]["pipelines"]] == ["troubled"]


def test_it_needs_no_other_file_and_no_server(html: str) -> None:
    assert re.findall(r'(?:src|href)="(?!data:|#/)([^"]*)"', html) == []
    assert "import " not in html
    assert "export " not in html
    assert RECORD_CONTENT not in html


def test_no_text_of_a_ledger_ends_its_script(root: str, html: str) -> None:
    assert html.count("</script>") == 3
    assert "<" not in KEPT.search(html)[1]  # type: ignore[index]


def test_the_command_writes_it(root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    main(["ledger", "show", "troubled", window(3), "--ledger", root, "--html", str(file)])
    printed = capsys.readouterr()
    assert printed.err == f"kafka-offsets: wrote the newest windows of troubled to {file}: open it in a browser.\n"
    assert window(3) in printed.out.splitlines()[0]
    assert f"#/p/troubled/w/{window(3)}" in file.read_text()


def test_a_file_that_can_not_be_written_is_named(root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ledger", "show", "troubled", "--ledger", root, "--html", str(tmp_path)])
    assert ended.value.code == 2
    assert f"{tmp_path} can't be written: Is a directory." in capsys.readouterr().err
