"""Whose window it is: the Dags that made whatever an answer shows are asked for, as they were when it was read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from airflow.sdk import ObjectStoragePath
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.publication import OF_LOAD
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.loads import AT_T0, OFFSETS, load, publish, resolve
from tests.integration.page.auth_manager import SECRET
from tests.integration.page.conftest import As, open_pipeline
from tests.unit.offsets.builders import HOUR_MS, T0

WINDOW = window_id(T0, T0 + HOUR_MS)
OF_SECRET: dict[str, Any] = {"airflow": {"dag_id": f"{SECRET}_loads", "run_id": "secret-run", "task_id": "load"}}
OF_LOADS: dict[str, Any] = {"airflow": {"dag_id": "loads", "run_id": "r", "task_id": "load"}}
PANEL = f"windows/{WINDOW}"
RECORD = f"records?topic=t&partition=0&offset={AT_T0 + 1}"

Get = Callable[[str, str], httpx.Response]


@pytest.fixture
def ledger(root: str) -> Iterator[Ledger]:
    """Its first window was loaded by a Dag that all may read, and so were ten later ones."""
    made = open_pipeline(root, "shared")
    try:
        for hour in range(11):
            load(made, hour)
        yield made
    finally:
        shutil.rmtree(Path(urlsplit(root).path) / "shared")


@pytest.fixture
def get(log_in: As, ledger: Ledger) -> Get:
    """Ask one page, which keeps what it has read."""
    app = make_app()

    def ask(role: str, what: str) -> httpx.Response:
        browser = TestClient(app, cookies=log_in(role).cookies, raise_server_exceptions=False)
        return browser.get(f"/api/pipelines/{ledger.pipeline}/{what}")

    return ask


def folder_of(ledger: Ledger) -> Path:
    return Path(urlsplit(ledger.folder.uri).path) / "windows" / WINDOW[:6] / WINDOW


class TestAWindowThatAnotherDagTries:
    def test_its_attempt_is_not_shown_by_what_was_known_before_it(self, get: Get, ledger: Ledger) -> None:
        """Answers of different age are kept; each says itself whose it is."""
        assert get("viewer", RECORD).status_code == 200
        ledger.window_folders.newest(WINDOW).record_attempt("b-1", OF_SECRET)
        answer = get("viewer", PANEL)
        assert answer.status_code == 403
        assert "secret-run" not in answer.text
        assert "secret-run" in get("admin", PANEL).text

    def test_what_was_read_before_it_is_shown_while_it_stands(self, get: Get, ledger: Ledger) -> None:
        before = get("viewer", PANEL)
        ledger.window_folders.newest(WINDOW).record_attempt("b-1", OF_SECRET)
        after = get("viewer", PANEL)
        assert (before.status_code, after.status_code) == (200, 200)
        assert "secret-run" not in after.text

    def test_an_attempt_with_a_damaged_result_is_that_dags_too(self, get: Get, ledger: Ledger) -> None:
        ledger.window_folders.newest(WINDOW).record_attempt("b-1", OF_SECRET)
        (folder_of(ledger) / "results" / "b-1.json").write_text("{")
        assert get("viewer", PANEL).status_code == 403
        problems = [each.get("problem") for each in get("admin", PANEL).json()["revisions"][0]["attempts"]]
        assert "b-1.json" in next(filter(None, problems))


class TestAForgottenRevision:
    def test_its_publications_are_its_dags(self, get: Get, ledger: Ledger) -> None:
        pinned = resolve(ledger, 11)
        ledger.window_folders.of(pinned).record_attempt("b-1", OF_SECRET)
        publish(ledger, pinned, "b-1")
        forget_windows(ledger, [pinned.manifest.window], "a test")
        again = Ledger(ObjectStoragePath(ledger.uri.rpartition("/")[0]), ledger.pipeline)
        pinned = resolve(again, 11)
        assert pinned.manifest.revision == 2
        again.window_folders.of(pinned).record_attempt("c-1", OF_LOADS)
        asked = f"windows/{pinned.manifest.window}", f"records?topic=t&partition=0&offset={AT_T0 + 11 * OFFSETS}"
        assert [get("viewer", what).status_code for what in asked] == [403, 403]
        assert [each["attempt"] for each in get("admin", asked[0]).json()["publications"]] == ["b-1"]

    def test_an_attempt_that_was_handed_over_is_that_of_its_loads_dag(self, get: Get, ledger: Ledger) -> None:
        """Its own note says only that it was."""
        pinned = resolve(ledger, 11)
        folder = ledger.window_folders.of(pinned)
        folder.record_attempt("b-1", OF_SECRET)
        folder.record_attempt(f"b-1{OF_LOAD}app", {"handed_over": True})
        publish(ledger, pinned, f"b-1{OF_LOAD}app")
        forget_windows(ledger, [pinned.manifest.window], "a test")
        again = Ledger(ObjectStoragePath(ledger.uri.rpartition("/")[0]), ledger.pipeline)
        pinned = resolve(again, 11)
        again.window_folders.of(pinned).record_attempt("c-1", OF_LOADS)
        assert get("viewer", f"windows/{pinned.manifest.window}").status_code == 403
        assert get("admin", f"windows/{pinned.manifest.window}").status_code == 200


class TestAWindowThatCannotBeRead:
    @pytest.mark.parametrize("what", [PANEL, RECORD])
    def test_what_is_wrong_is_told_to_those_who_may_read_all_dags(self, get: Get, ledger: Ledger, what: str) -> None:
        """Whose window it is isn't known then."""
        (folder_of(ledger) / "attempts" / "secret-attempt.json").write_text("{")
        told = {role: get(role, what) for role in ("viewer", "admin")}
        assert {role: answer.status_code for role, answer in told.items()} == {"viewer": 502, "admin": 502}
        assert "secret-attempt.json is not JSON" in told["admin"].json()["detail"]
        assert "secret-attempt" not in told["viewer"].text
        assert "all Dags" in told["viewer"].json()["detail"]

    def test_others_of_the_pipeline_are_shown(self, get: Get, ledger: Ledger) -> None:
        (folder_of(ledger) / "attempts" / "secret-attempt.json").write_text("{")
        other = window_id(T0 + HOUR_MS, T0 + 2 * HOUR_MS)
        assert get("viewer", f"windows/{other}").status_code == 200
        assert get("viewer", f"records?topic=t&partition=0&offset={AT_T0 + OFFSETS}").status_code == 200
