"""The lines about a Spark run: what they say, and that one that can't be asked is no trouble."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles, note_file
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.submission import spark_progress
from airflow_kafka_offsets.submission.spark_progress import Stage, Watched, oldest_running, progress_told
from tests.patience import GRACE_S, PATIENCE_S
from tests.unit.ledger.memory import MemoryFiles

LOG = logging.getLogger("task")
ATTEMPT, RUN, KEY = 7, "0000000a", "key"


def stage(number: int, done: int, tasks: int = 40) -> dict[str, Any]:
    """An element of ``/stages``, as Spark serves it."""
    return {"stageId": number, "attemptId": 0, "numTasks": tasks, "numCompletedIndices": done, "status": "ACTIVE"}


class TestStage:
    def test_the_oldest_that_runs_is_told(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            assert (request.url.path, request.url.query) == ("/stages", b"status=active")
            return httpx.Response(200, json=[stage(5, 1), stage(4, 0)])

        api = httpx.Client(base_url="http://spark/", transport=httpx.MockTransport(answer))
        assert oldest_running(api, 100) == Stage(4, 40, 0, 100)

    def test_between_two_stages_there_is_none(self) -> None:
        api = httpx.Client(
            base_url="http://spark/", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=[]))
        )
        assert oldest_running(api, 100) is None

    def test_the_time_left_follows_from_the_tasks_that_were_done_since_the_first_look(self) -> None:
        first = Stage(3, 40, 2, 100)
        assert first.line(first) == "2 of 40 tasks of stage 3 (5 %)"
        assert Stage(3, 40, 12, 110).line(first) == "12 of 40 tasks of stage 3 (30 %), 28 s left"
        assert Stage(3, 40, 40, 120).line(first) == "40 of 40 tasks of stage 3 (100 %), 1 s left"

    def test_a_long_time_is_said_in_larger_units(self) -> None:
        line = Stage(3, 10_000, 10, 10).line(Stage(3, 10_000, 0, 0))
        assert line == "10 of 10,000 tasks of stage 3 (under 1 %), 3 hours left"


@pytest.fixture
def attempt() -> AttemptFiles:
    return AttemptFiles(MemoryFiles(), "w", ATTEMPT)


@pytest.fixture
def write(attempt: AttemptFiles) -> Callable[..., None]:
    """Write a driver's note."""

    def put(content: str, run: str = RUN) -> None:
        attempt.files.replace(f"{attempt.folder}/{note_file(run)}", content.encode())

    return put


@pytest.fixture
def note(write: Callable[..., None]) -> Callable[..., None]:
    """Write what a driver notes."""

    def put(ui: str | None, key: str | None = KEY, run: str = RUN, name: str = "app-1") -> None:
        write(json.dumps(SparkApplication(name, ui).to_json(ATTEMPT, run, key)), run)

    return put


@contextmanager
def told(
    attempt: AttemptFiles, found: list[SparkApplication] | None = None, *, on_yarn: bool = False
) -> Iterator[None]:
    """A load of half a second at most, with a thread that is not to outlive it by much."""
    started, driver = time.monotonic(), Watched(attempt, KEY, on_yarn)
    with progress_told(driver, LOG, (found if found is not None else []).append):
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
        self, attempt: AttemptFiles, note: Callable[[str], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        note("http://127.0.0.1:1")
        found: list[SparkApplication] = []
        with told(attempt, found):
            until(lambda: "No progress" in caplog.text)
            time.sleep(0.2)
        assert found == [SparkApplication("app-1", "http://127.0.0.1:1")]
        assert len(caplog.messages) == 2
        assert "Spark application app-1 is running; its UI is http://127.0.0.1:1" in caplog.messages[0]
        assert "can't be asked from here" in caplog.messages[1]

    def test_a_login_page_is_no_answer(
        self, attempt: AttemptFiles, note: Callable[[str], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        with serving("<html>log in first</html>") as ui:
            note(ui)
            with told(attempt):
                until(lambda: "can't be asked from here" in caplog.text)

    def test_without_a_ui_nobody_is_asked(
        self, attempt: AttemptFiles, note: Callable[[str | None], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        note(None)
        with told(attempt):
            until(lambda: "has no UI (spark.ui.enabled=false)" in caplog.text)

    def test_a_load_that_ends_before_its_driver_began_leaves_no_word(
        self, attempt: AttemptFiles, write: Callable[..., None], caplog: pytest.LogCaptureFixture
    ) -> None:
        write('{"application_id": ')
        with told(attempt):
            time.sleep(0.1)
        assert [each for each in caplog.messages if "progress" in each.lower()] == []

    def test_links_that_cannot_be_shown_are_left_out(
        self, attempt: AttemptFiles, note: Callable[[str | None], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_application: SparkApplication) -> None:
            raise RuntimeError("no XComs here")

        note(None)
        with progress_told(Watched(attempt, KEY), LOG, fail):
            until(lambda: "has no UI" in caplog.text)

    def test_a_store_that_fails_for_a_while_is_asked_again(
        self,
        attempt: AttemptFiles,
        note: Callable[[str | None], None],
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        asked = AttemptFiles.applications
        answers = [OSError("slow down"), OSError("slow down")]

        def flaky(self: AttemptFiles, key: str) -> list[SparkApplication]:
            if answers:
                raise answers.pop()
            return asked(self, key)

        monkeypatch.setattr(AttemptFiles, "applications", flaky)
        note(None)
        with told(attempt):
            until(lambda: "has no UI" in caplog.text)
        assert len(caplog.messages) == 2
        assert "the ledger can't be asked for the driver's note (OSError('slow down'))" in caplog.messages[0]

    def test_a_load_that_has_ended_gets_no_links_of_a_late_answer(
        self, attempt: AttemptFiles, note: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, looked, left = AttemptFiles.applications, threading.Event(), threading.Event()

        def slow(self: AttemptFiles, key: str) -> list[SparkApplication]:
            looked.set()
            left.wait(PATIENCE_S)
            time.sleep(0.1)
            return asked(self, key)

        monkeypatch.setattr(AttemptFiles, "applications", slow)
        note(None)
        found: list[SparkApplication] = []
        with told(attempt, found):
            looked.wait(PATIENCE_S)
            left.set()
        assert found == []


class TestAddress:
    """Who is asked, and who isn't."""

    @pytest.mark.parametrize(("on_yarn", "line"), [(True, "1 of 40 tasks"), (False, "can't be asked from here")])
    def test_on_yarn_alone_a_driver_may_send_whoever_asks_to_a_proxy(
        self,
        attempt: AttemptFiles,
        note: Callable[..., None],
        impatient: None,
        caplog: pytest.LogCaptureFixture,
        on_yarn: bool,
        line: str,
    ) -> None:
        with serving(json.dumps([stage(0, 1)])) as proxy, serving("", f"{proxy}/proxy/application_1_0001") as ui:
            note(ui)
            with told(attempt, on_yarn=on_yarn):
                until(lambda: line in caplog.text)

    def test_an_address_that_the_driver_didnt_sign_is_neither_asked_nor_shown(
        self, attempt: AttemptFiles, note: Callable[..., None], impatient: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whoever may write to the ledger could send the worker and people to any address. And the key of an earlier
        try's driver isn't kept."""
        asked: list[str] = []
        found: list[SparkApplication] = []
        for key in (None, "another key"):
            with serving("[]", asked=asked) as ui:
                note(ui, key)
                with told(attempt, found):
                    until(lambda: "isn't signed by a driver that this try has submitted" in caplog.text)
                    time.sleep(0.1)
            caplog.clear()
        assert asked == []
        assert {each.ui for each in found} == {None}

    def test_of_several_drivers_of_one_attempt_the_one_that_signed_is_asked(
        self, attempt: AttemptFiles, note: Callable[..., None], impatient: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        with serving(json.dumps([stage(0, 1)])) as ui:
            note(ui, name="app-2", run="0000000b")
            note("http://127.0.0.1:1", "another key")
            with told(attempt):
                until(lambda: "1 of 40 tasks" in caplog.text)
        assert "Spark application app-2 is running" in caplog.text

    @pytest.mark.parametrize(
        "ui", ["javascript:alert(1)", "file:///etc/passwd", "http://user:word@host/", "http://", "http://[", "//host"]
    )
    def test_nor_one_that_is_no_address_of_the_web(
        self, attempt: AttemptFiles, note: Callable[..., None], ui: str
    ) -> None:
        note(ui)
        assert attempt.applications(KEY) == [SparkApplication("app-1", None)]

    @pytest.mark.parametrize("name", ["../../admin", "app 1", ""])
    def test_an_id_that_would_lead_elsewhere_is_none(
        self, attempt: AttemptFiles, write: Callable[..., None], name: str
    ) -> None:
        write(json.dumps({"application_id": name, "ui": None}))
        with pytest.raises(LedgerCorruptError, match="is not the id of a Spark application"):
            attempt.application(RUN, KEY)

    def test_a_ui_that_is_away_for_a_while_is_asked_again(
        self,
        attempt: AttemptFiles,
        note: Callable[[str], None],
        impatient: None,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        answers = [httpx.ConnectError("away")] * 8

        def flaky(spark: httpx.Client, at_s: float) -> Stage | None:
            if answers:
                raise answers.pop()
            return oldest_running(spark, at_s)

        monkeypatch.setattr(spark_progress, "oldest_running", flaky)
        with serving(json.dumps([stage(0, 1)])) as ui:
            note(ui)
            with told(attempt):
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
