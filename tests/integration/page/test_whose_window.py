"""Whose window it is: the Dags that made whatever an answer shows, as the log had them when it was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger import corrections, load_decisions
from airflow_kafka_offsets.ledger.files import attempt_folder, manifest_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.loads import AT_T0, OFFSETS, begin, publish, resolve, window
from tests.integration.page.conftest import OF_SECRET, As, MakePipeline

WINDOW, OTHER = window(0), window(1)
PANEL = f"windows/{WINDOW}"
RECORD = f"records?topic=t&partition=0&offset={AT_T0 + 1}"

Get = Callable[[str, str], httpx.Response]


@pytest.fixture
def ledger(make_pipeline: MakePipeline) -> Ledger:
    """Its first window is pinned; ten later ones are loaded by a Dag that all may read."""
    made = make_pipeline("shared")
    for hour in range(11):
        resolve(made, hour)
        if hour:
            begin(made, made.window(window(hour)))
    return made


@pytest.fixture
def get(log_in: As, ledger: Ledger) -> Get:
    """Ask one page, which keeps what it has read."""
    app = make_app()

    def ask(role: str, what: str) -> httpx.Response:
        browser = TestClient(app, cookies=log_in(role).cookies, raise_server_exceptions=False)
        return browser.get(f"/api/pipelines/{ledger.pipeline}/{what}")

    return ask


def path_of(ledger: Ledger, name: str) -> Path:
    return Path(urlsplit(ledger.uri).path) / name


class TestAWindowThatAnotherDagTries:
    def test_is_shown_with_its_records_to_those_who_may_read_both(self, get: Get, ledger: Ledger) -> None:
        publish(ledger, ledger.window(WINDOW))
        ledger.change(lambda state: load_decisions.reload(state, [WINDOW]))
        begin(ledger, ledger.window(WINDOW), OF_SECRET)
        answers = {role: [get(role, what) for what in (PANEL, RECORD)] for role in ("viewer", "admin")}
        assert [answer.status_code for answer in answers["viewer"]] == [403, 403]
        assert "secret-run" not in "".join(answer.text for answer in answers["viewer"])
        assert answers["viewer"][0].json()["detail"] == (
            "Another Dag has loaded a window in this answer, and you may not read that Dag."
        )
        assert [answer.status_code for answer in answers["admin"]] == [200, 200]
        assert "secret-run" in answers["admin"][0].text

    def test_what_was_read_before_it_is_shown_while_it_stands(self, get: Get, ledger: Ledger) -> None:
        """Every answer is made from the state that decides who may see it: none has the new attempt."""
        before = [get("viewer", what) for what in (PANEL, RECORD)]
        begin(ledger, ledger.window(WINDOW), OF_SECRET)
        after = [get("viewer", what) for what in (PANEL, RECORD)]
        assert {answer.status_code for answer in (*before, *after)} == {200}
        assert "secret-run" not in "".join(answer.text for answer in after)

    def test_an_attempt_with_damaged_files_is_that_dags_too(self, get: Get, ledger: Ledger) -> None:
        attempt = begin(ledger, ledger.window(WINDOW), OF_SECRET)
        folder = path_of(ledger, attempt_folder(WINDOW, attempt.number))
        folder.mkdir(parents=True)
        (folder / "0000000b.result.json").write_text("{")
        (folder / "ended.json").write_text("{")
        assert get("viewer", PANEL).status_code == 403
        (found,) = get("admin", PANEL).json()["attempts"]
        assert found["failure"]["error"] == "SparkFailedError"
        assert ["0000000b.result.json" in run["problem"] for run in found["runs"]] == [True]

    def test_others_of_the_pipeline_are_shown(self, get: Get, ledger: Ledger) -> None:
        begin(ledger, ledger.window(WINDOW), OF_SECRET)
        assert get("viewer", f"windows/{OTHER}").status_code == 200
        assert get("viewer", f"records?topic=t&partition=0&offset={AT_T0 + OFFSETS}").status_code == 200

    def test_is_nobodys_once_it_was_voided(self, get: Get, ledger: Ledger) -> None:
        begin(ledger, ledger.window(WINDOW), OF_SECRET)
        ledger.change(lambda state: corrections.void(state, [WINDOW]))
        assert get("viewer", PANEL).status_code == 404
        (place,) = get("viewer", RECORD).json()["places"]
        assert (place["where"], place["later"]) == ("before", OTHER)
        resolve(ledger, 0)
        assert "secret-run" not in get("viewer", PANEL).text


class TestAWindowThatCannotBeRead:
    @pytest.mark.parametrize("what", [PANEL, RECORD])
    def test_what_is_wrong_is_told_to_those_who_may_read_its_dags(self, get: Get, ledger: Ledger, what: str) -> None:
        begin(ledger, ledger.window(WINDOW), OF_SECRET)
        name = manifest_file(WINDOW, ledger.window(WINDOW).manifest)
        path_of(ledger, name).write_text("{")
        told = {role: get(role, what) for role in ("viewer", "admin")}
        assert name in told["admin"].json()["detail"]
        assert told["admin"].status_code == 502
        assert told["viewer"].status_code == (403 if what == PANEL else 502)

    def test_a_log_that_cannot_be_read_is_told_to_those_who_may_read_all_dags(self, get: Get, ledger: Ledger) -> None:
        """Whose pipeline it is isn't known then."""
        newest = max(path_of(ledger, "log/00000").iterdir())
        newest.write_text("{")
        told = {role: get(role, PANEL) for role in ("viewer", "admin")}
        assert {role: answer.status_code for role, answer in told.items()} == {"viewer": 404, "admin": 502}
        assert newest.name in told["admin"].json()["detail"]
        assert newest.name not in told["viewer"].text
