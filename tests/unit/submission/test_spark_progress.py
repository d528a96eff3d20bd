"""The lines about a Spark run: what they say, and that one that can't be asked is no trouble."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from upath import UPath

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.proof.driver_note import SparkApplication
from airflow_kafka_offsets.submission import spark_progress
from airflow_kafka_offsets.submission.spark_progress import Pace, Sample, Teller, Watched, progress_told
from airflow_kafka_offsets.submission.spark_status import (
    KafkaRead,
    SparkStatus,
    newest_on_kafka,
    rows_in_api,
    rows_on_page,
)

LOG = logging.getLogger("task")
DRIVER = Watched("try-1", "key")


class TestPace:
    def test_the_rate_is_that_between_the_first_step_and_the_newest(self) -> None:
        pace = Pace(4_000_000)
        assert pace.line(Sample(10.0, 450_000)) == "0.5 of 4.0 million records (11 %)"
        assert pace.line(Sample(15.0, 1_200_000)) == ("1.2 of 4.0 million records (30 %), 150,000 a second, 19 s left")
        assert pace.line(Sample(20.0, 1_950_000)) == ("1.9 of 4.0 million records (48 %), 150,000 a second, 14 s left")

    def test_without_a_new_step_the_time_left_goes_down_and_no_further_than_nought(self) -> None:
        pace = Pace(1000)
        lines = [pace.line(Sample(*each)) for each in ((0, 100), (10, 200), (20, 200), (500, 200))]
        assert lines[1:] == [f"200 of 1,000 records (20 %), 10 a second, {left} s left" for left in (80, 70, 1)]

    def test_a_task_that_failed_and_counts_no_longer_begins_the_reckoning_anew(self) -> None:
        pace = Pace(1000)
        lines = [pace.line(Sample(*each)) for each in ((0, 100), (10, 500), (20, 100), (30, 200))]
        assert lines[2:] == ["100 of 1,000 records (10 %)", "200 of 1,000 records (20 %), 10 a second, 80 s left"]

    @pytest.mark.parametrize(
        ("offsets", "expected"),
        [
            (100_000, "10 of 100,000 records (under 1 %), 1 a second, 28 hours left"),
            (10_000, "10 of 10,000 records (under 1 %), 1 a second, 3 hours left"),
            (1_000, "10 of 1,000 records (1 %), 1 a second, 16 minutes left"),
        ],
    )
    def test_long_times_are_said_in_larger_units(self, offsets: int, expected: str) -> None:
        pace = Pace(offsets)
        pace.line(Sample(0, 1))
        assert pace.line(Sample(9, 10)).replace("27.8", "28") == expected


class TestTeller:
    def test_there_is_a_line_every_ten_seconds_and_one_when_all_is_read(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        teller = Teller(100, LOG)
        for at_s, records in ((0, 0), (5, 10), (10, 20), (15, 30), (20, 40)):
            teller.tell(KafkaRead(1, records, running=True), at_s)
        for at_s in (25, 30, 40):
            teller.tell(KafkaRead(1, 99, running=False), at_s)
        assert [each.split(",")[0] for each in caplog.messages] == [
            "10 of 100 records (10 %)",
            "30 of 100 records (30 %)",
            "99 records are read",
        ]

    def test_more_records_than_the_window_has_are_explained(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        teller = Teller(90, LOG)
        teller.tell(KafkaRead(1, 180, running=False), 0)
        assert caplog.messages == [
            "180 records are read, some of the window's 90 again: a sort does that, and a task that is run anew"
        ]

    def test_a_second_read_of_kafka_begins_anew(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        teller = Teller(100, LOG)
        teller.tell(KafkaRead(1, 100, running=False), 0)
        teller.tell(KafkaRead(4, 7, running=True), 5)
        assert caplog.messages == ["100 records are read", "7 of 100 records (7 %)"]


class TestStatus:
    """The rows of Kafka's scans alone, by either version of Spark's Kafka source."""

    def test_the_newest_query_with_a_scan_of_kafka_is_told(self) -> None:
        scan = {"nodeName": "BatchScan KafkaTable", "metrics": [{"name": "number of output rows", "value": "1,205"}]}
        other = {"nodeName": "Scan parquet", "metrics": [{"name": "number of output rows", "value": "77"}]}
        queries: list[dict[str, Any]] = [
            {"id": 2, "nodes": [scan]},
            {"id": 10, "nodes": [other, scan]},
            {"id": 11, "nodes": [other]},
        ]
        newest = newest_on_kafka(queries)
        assert newest is queries[1]
        assert rows_in_api(newest) == 1205
        assert newest_on_kafka([queries[2]]) is None

    @pytest.mark.parametrize("name", ["BatchScan KafkaTable", "Scan KafkaRelation(strategy=Assign[t-0], start=…)"])
    def test_a_page_has_a_line_for_each_node(self, name: str) -> None:
        nodes = [
            f"&lt;b&gt;{each}&lt;/b&gt;&lt;br&gt;number of output rows: 37,777&lt;br&gt;" for each in (name, "Scan x")
        ]
        assert rows_on_page("\n".join(nodes)) == 37_777
        assert rows_on_page("log in first") == 0


@pytest.fixture
def folder(tmp_path: Path) -> WindowFolder:
    (tmp_path / "applications").mkdir()
    return WindowFolder(UPath(tmp_path), "w", 1, Publications(UPath(tmp_path)))


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
    with progress_told(folder, DRIVER, 100, LOG, (found if found is not None else []).append):
        yield
    assert time.monotonic() - started < 5


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for name in ("_LOOK_S", "_ASK_S", "_TELL_S", "_PATIENT_S"):
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
        assert "Spark application app-1 runs, its UI is http://127.0.0.1:1" in caplog.messages[0]
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
        with progress_told(folder, DRIVER, 100, LOG, fail):
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
            left.wait(5)
            time.sleep(0.1)
            return asked(self, attempt, key)

        monkeypatch.setattr(WindowFolder, "application", slow)
        note(None)
        found: list[SparkApplication] = []
        with told(folder, found):
            looked.wait(5)
            left.set()
        assert found == []


class TestAnswers:
    """A UI as Spark serves it."""

    SCAN: ClassVar = {"nodeName": "BatchScan KafkaTable", "metrics": [{"name": "number of output rows", "value": "7"}]}

    @pytest.mark.parametrize(("status", "told"), [("COMPLETED", 7), ("FAILED", None)])
    def test_a_query_that_failed_has_not_read_its_records(self, status: str, told: int | None) -> None:
        with serving(json.dumps([{"id": 1, "status": status, "nodes": [self.SCAN]}])) as ui:
            assert self.records(ui) == told

    def test_on_yarn_the_driver_sends_whoever_asks_to_the_proxy_of_the_resource_manager(self) -> None:
        query = {"id": 1, "status": "COMPLETED", "nodes": [self.SCAN]}
        with serving(json.dumps([query])) as proxy, serving("", f"{proxy}/proxy/application_1_0001") as ui:
            assert self.records(ui, redirected=True) == 7

    def test_and_nobody_is_followed_elsewhere_on_other_masters(self) -> None:
        query = {"id": 1, "status": "COMPLETED", "nodes": [self.SCAN]}
        with (
            serving(json.dumps([query])) as other,
            serving("", other) as ui,
            pytest.raises(httpx.HTTPStatusError, match="302"),
        ):
            self.records(ui)

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
        with pytest.raises(LedgerCorruptError, match="is no id of a Spark application"):
            folder.application("try-1", DRIVER.note_key)

    def test_a_ui_that_is_away_for_a_while_is_asked_again(
        self,
        folder: WindowFolder,
        note: Callable[[str], None],
        impatient: None,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        answers = iter([httpx.ConnectError("away")] * 8)

        def read(_: SparkStatus) -> KafkaRead:
            if error := next(answers, None):
                raise error
            return KafkaRead(1, 5, running=True)

        monkeypatch.setattr(SparkStatus, "kafka_read", read)
        note("http://127.0.0.1:1")
        with told(folder):
            until(lambda: "5 of 100 records" in caplog.text)
        assert [each.split(":")[0] for each in caplog.messages[1:2]] == ["No progress for now"]

    def records(self, ui: str, *, redirected: bool = False) -> int | None:
        with SparkStatus(ui, "app-1", redirected=redirected) as status:
            read = status.kafka_read()
        return None if read is None else read.records


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
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
