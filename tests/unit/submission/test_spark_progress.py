"""The lines about a Spark run: what they say, and that one that can't be asked is no trouble."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from upath import UPath

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.settlement import Settlement
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.submission import spark_progress
from airflow_kafka_offsets.submission.spark_progress import StageTeller, Watched, progress_told
from tests.patience import GRACE_S, PATIENCE_S

LOG = logging.getLogger("task")
DRIVER = Watched("try-1", "key")


class Stages:
    """The REST API of an application, as Spark serves it: each look finds the stages that a test has set."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, LOG.name)
        self._caplog = caplog
        self._stages: tuple[dict[str, Any], ...] = ()
        api = httpx.Client(base_url="http://spark/", transport=httpx.MockTransport(self._answer))
        self._teller = StageTeller(api, LOG)

    def told(self, at_s: float, *stages: dict[str, Any]) -> list[str]:
        """The lines of one look."""
        self._stages = stages
        self._caplog.clear()
        self._teller.tell(at_s)
        return self._caplog.messages

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/stages":
            return httpx.Response(200, json=[each for each in self._stages if each["status"] == "ACTIVE"])
        asked = [each for each in self._stages if request.url.path == f"/stages/{each['stageId']}/0"]
        return httpx.Response(200, json=asked[0]) if asked else httpx.Response(404)


def stage(number: int, done: int, tasks: int = 40, status: str = "ACTIVE") -> dict[str, Any]:
    numbers = {"stageId": number, "attemptId": 0, "numTasks": tasks, "numCompletedIndices": done}
    return {**numbers, "status": status}


class TestLines:
    @pytest.fixture
    def spark(self, caplog: pytest.LogCaptureFixture) -> Stages:
        return Stages(caplog)

    def test_the_time_left_follows_from_the_tasks_that_were_done_since_the_first_look(self, spark: Stages) -> None:
        assert spark.told(100, stage(3, 2)) == ["2 of 40 tasks of stage 3 (5 %)"]
        assert spark.told(110, stage(3, 12)) == ["12 of 40 tasks of stage 3 (30 %), 28 s left"]
        assert spark.told(120, stage(3, 40)) == ["40 of 40 tasks of stage 3 (100 %), 1 s left"]

    def test_a_long_time_is_said_in_larger_units(self, spark: Stages) -> None:
        spark.told(0, stage(3, 0, 10_000))
        assert spark.told(10, stage(3, 10, 10_000)) == ["10 of 10,000 tasks of stage 3 (under 1 %), 3 hours left"]

    def test_a_stage_that_is_over_is_told_once_and_the_next_begins(self, spark: Stages) -> None:
        spark.told(0, stage(3, 12))
        over = stage(3, 40, status="COMPLETE")
        assert spark.told(10, over, stage(4, 1, 2)) == [
            "Stage 3 is done",
            "1 of 2 tasks of stage 4 (50 %)",
        ]
        assert spark.told(20, over, stage(4, 2, 2, "COMPLETE")) == ["Stage 4 is done"]
        assert spark.told(30) == []

    def test_of_stages_side_by_side_one_is_told_until_it_is_over(self, spark: Stages) -> None:
        assert spark.told(0, stage(5, 1), stage(4, 0)) == ["0 of 40 tasks of stage 4 (0 %)"]
        assert spark.told(10, stage(5, 40), stage(4, 10)) == ["10 of 40 tasks of stage 4 (25 %), 30 s left"]

    def test_a_stage_that_failed_is_not_told_as_done(self, spark: Stages) -> None:
        spark.told(0, stage(3, 12))
        assert spark.told(10, stage(3, 12, status="FAILED")) == []

    def test_one_that_spark_has_forgotten_is_left(self, spark: Stages) -> None:
        spark.told(0, stage(3, 12))
        with pytest.raises(httpx.HTTPStatusError, match="404"):
            spark.told(10, stage(4, 0))
        assert spark.told(20, stage(4, 0)) == ["0 of 40 tasks of stage 4 (0 %)"]


@pytest.fixture
def folder(tmp_path: Path) -> WindowFolder:
    (tmp_path / "applications").mkdir()
    return WindowFolder(UPath(tmp_path), "w", 1, Publications(UPath(tmp_path)), Settlement(UPath(tmp_path), "m/w"))


@pytest.fixture
def note(tmp_path: Path) -> Callable[..., None]:
    """Write what the driver notes."""

    def write(ui: str | None, key: str | None = DRIVER.note_key) -> None:
        fields = SparkApplication("app-1", ui).to_json(DRIVER.attempt, key) | {"started_ms": 1}
        (tmp_path / "applications" / "try-1.json").write_text(json.dumps(fields))

    return write


@contextmanager
def told(folder: WindowFolder, found: list[SparkApplication] | None = None) -> Iterator[None]:
    """A load of half a second at most, with a thread that is not to outlive it by much."""
    started = time.monotonic()
    with progress_told(folder, DRIVER, LOG, (found if found is not None else []).append):
        yield
    assert time.monotonic() - started < GRACE_S


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    for name in ("_LOOK_S", "_ASK_S", "_PATIENT_S"):
        monkeypatch.setattr(spark_progress, name, 0.01)


@pytest.mark.usefixtures("impatient")
class TestOutOfReach:
    def test_a_ui_that_does_not_answer_is_named_once(
        self, folder: WindowFolder, note: Callable[[str], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        note("http://127.0.0.1:1")
        found: list[SparkApplication] = []
        with told(folder, found):
            until(lambda: "No progress" in caplog.text)
            time.sleep(0.2)
        assert found == [SparkApplication("app-1", "http://127.0.0.1:1")]
        assert len(caplog.messages) == 2
        assert "Spark application app-1 is running; its UI is http://127.0.0.1:1" in caplog.messages[0]
        assert "can't be asked from here" in caplog.messages[1]

    def test_a_login_page_is_no_answer(
        self, folder: WindowFolder, note: Callable[[str], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        with serving("<html>log in first</html>") as ui:
            note(ui)
            with told(folder):
                until(lambda: "can't be asked from here" in caplog.text)

    def test_without_a_ui_nobody_is_asked(
        self, folder: WindowFolder, note: Callable[[str | None], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        note(None)
        with told(folder):
            until(lambda: "has no UI (spark.ui.enabled=false)" in caplog.text)

    def test_a_load_that_ends_before_its_driver_began_leaves_no_word(
        self, folder: WindowFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "applications" / "try-1.json").write_text('{"application_id": ')  # half written
        with told(folder):
            time.sleep(0.1)
        assert caplog.messages == []

    def test_links_that_cannot_be_shown_are_left_out(
        self, folder: WindowFolder, note: Callable[[str | None], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_application: SparkApplication) -> None:
            raise RuntimeError("no XComs here")

        note(None)
        with progress_told(folder, DRIVER, LOG, fail):
            until(lambda: "has no UI" in caplog.text)

    def test_a_store_that_fails_for_a_while_is_asked_again(
        self,
        folder: WindowFolder,
        note: Callable[[str | None], None],
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        asked = WindowFolder.application
        answers = [OSError("slow down"), OSError("slow down")]

        def flaky(self: WindowFolder, attempt: str, key: str) -> SparkApplication | None:
            if answers:
                raise answers.pop()
            return asked(self, attempt, key)

        monkeypatch.setattr(WindowFolder, "application", flaky)
        note(None)
        with told(folder):
            until(lambda: "has no UI" in caplog.text)
        assert len(caplog.messages) == 2
        assert "the ledger can't be asked for the driver's note (OSError('slow down'))" in caplog.messages[0]

    def test_a_load_that_has_ended_gets_no_links_of_a_late_answer(
        self, folder: WindowFolder, note: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, looked, left = WindowFolder.application, threading.Event(), threading.Event()

        def slow(self: WindowFolder, attempt: str, key: str) -> SparkApplication | None:
            looked.set()
            left.wait(PATIENCE_S)
            time.sleep(0.1)
            return asked(self, attempt, key)

        monkeypatch.setattr(WindowFolder, "application", slow)
        note(None)
        found: list[SparkApplication] = []
        with told(folder, found):
            looked.wait(PATIENCE_S)
            left.set()
        assert found == []


class TestAddress:
    """Who is asked, and who isn't."""

    @pytest.mark.parametrize(("on_yarn", "line"), [(True, "1 of 40 tasks"), (False, "can't be asked from here")])
    def test_on_yarn_alone_a_driver_may_send_whoever_asks_to_a_proxy(
        self,
        folder: WindowFolder,
        note: Callable[..., None],
        impatient: None,
        caplog: pytest.LogCaptureFixture,
        on_yarn: bool,
        line: str,
    ) -> None:
        with serving(json.dumps([stage(0, 1)])) as proxy, serving("", f"{proxy}/proxy/application_1_0001") as ui:
            note(ui)
            with progress_told(folder, replace(DRIVER, on_yarn=on_yarn), LOG, lambda _: None):
                until(lambda: line in caplog.text)

    def test_an_address_that_the_driver_didnt_sign_is_neither_asked_nor_shown(
        self, folder: WindowFolder, note: Callable[..., None], impatient: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whoever may write to the ledger could send the worker and people to any address."""
        asked: list[str] = []
        found: list[SparkApplication] = []
        for key in (None, "another key"):
            with serving("[]", asked=asked) as ui:
                note(ui, key)
                with told(folder, found):
                    until(lambda: "isn't signed by this load's driver" in caplog.text)
                    time.sleep(0.1)
            caplog.clear()
        assert asked == []
        assert {each.ui for each in found} == {None}

    def test_a_driver_of_an_earlier_try_isnt_asked_as_its_key_is_gone(
        self, folder: WindowFolder, note: Callable[..., None], impatient: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        asked: list[str] = []
        with serving("[]", asked=asked) as ui:
            note(ui)
            with progress_told(folder, replace(DRIVER, note_key=None), LOG, lambda _: None):
                until(lambda: "app-1 was submitted by an earlier try" in caplog.text)
        assert asked == []

    @pytest.mark.parametrize(
        "ui", ["javascript:alert(1)", "file:///etc/passwd", "http://user:word@host/", "http://", "http://[", "//host"]
    )
    def test_nor_one_that_is_no_address_of_the_web(
        self, folder: WindowFolder, note: Callable[..., None], ui: str
    ) -> None:
        note(ui)
        assert folder.application("try-1", DRIVER.note_key) == SparkApplication("app-1", None)

    @pytest.mark.parametrize("name", ["../../admin", "app 1", ""])
    def test_an_id_that_would_lead_elsewhere_is_none(self, folder: WindowFolder, tmp_path: Path, name: str) -> None:
        (tmp_path / "applications" / "try-1.json").write_text(json.dumps({"application_id": name, "ui": None}))
        with pytest.raises(LedgerCorruptError, match="is not the id of a Spark application"):
            folder.application("try-1", DRIVER.note_key)

    def test_a_ui_that_is_away_for_a_while_is_asked_again(
        self,
        folder: WindowFolder,
        note: Callable[[str], None],
        impatient: None,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        answers = [httpx.ConnectError("away")] * 8
        tell = StageTeller.tell

        def flaky(self: StageTeller, at_s: float) -> None:
            if answers:
                raise answers.pop()
            tell(self, at_s)

        monkeypatch.setattr(StageTeller, "tell", flaky)
        with serving(json.dumps([stage(0, 1)])) as ui:
            note(ui)
            with told(folder):
                until(lambda: "1 of 40 tasks" in caplog.text)
        assert [each.split(":")[0] for each in caplog.messages[1:2]] == ["No progress for now"]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def serving(page: str, elsewhere: str | None = None, asked: list[str] | None = None) -> Iterator[str]:
    """A web server that has one page for everybody, or sends everybody elsewhere, and notes what it is asked."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(self.path)
            self.send_response(200 if elsewhere is None else 302)
            if elsewhere is not None:
                self.send_header("Location", elsewhere + self.path)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
