"""Records on the page by key and by time: the answers, and whose they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.keys import partition_of_key
from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.added_topics import ADDED, AT_ADDED, add_topic, at_hour
from tests.integration.ledger.loads import AT_T0, LATER_MS, OFFSETS, load, pin, publish, resolve, window
from tests.integration.page.auth_manager import SECRET
from tests.integration.page.conftest import As, open_pipeline
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

KEY = "customer-4711"
PARTITIONS = 5
OF_SECRET: dict[str, Any] = {"airflow": {"dag_id": f"{SECRET}_loads", "run_id": "secret-run", "task_id": "load"}}
AT: dict[int, str] = {hour: iso_instant(T0 + hour * HOUR_MS + 60_000) for hour in range(-1, 20)}

Get = Callable[..., httpx.Response]


@pytest.fixture
def get(log_in: As) -> Get:
    """Ask for records of ``troubled``, or of another pipeline. The page is a new one, that has kept nothing."""
    app = make_app()

    def ask(role: str = "viewer", pipeline: str = "troubled", **asked: Any) -> httpx.Response:
        browser = TestClient(app, cookies=log_in(role).cookies, raise_server_exceptions=False)
        return browser.get(f"/api/pipelines/{pipeline}/records", params={"topic": "t"} | asked)

    return ask


@pytest.fixture
def shared(root: str) -> Iterator[Ledger]:
    """Hours that a Dag has loaded that all may read. Its last ten decide about the pipeline."""
    made = open_pipeline(root, "shared")
    try:
        for hour in range(12):
            load(made, hour)
        yield made
    finally:
        shutil.rmtree(Path(urlsplit(root).path) / "shared")


@pytest.fixture
def wide(root: str) -> Iterator[Ledger]:
    """An hour of a topic with one partition, which then gets more."""
    made = open_pipeline(root, "wide")
    try:
        for hour, count in ((0, 1), (1, PARTITIONS)):
            ends = [
                snapshot(
                    dict.fromkeys(range(each), AT_T0 + at * OFFSETS), at_ms=T0 + at * HOUR_MS, resolved_at_ms=LATER_MS
                )
                for at, each in ((hour, 1), (hour + 1, count))
            ]
            publish(made, pin_window(made, *made.snapshots.append(ends)))
        yield made
    finally:
        shutil.rmtree(Path(urlsplit(root).path) / "wide")


@pytest.fixture
def added(root: str) -> Iterator[Ledger]:
    """Hours that a Dag has loaded that all may read, of which the third one is the first that has a topic. The last ten
    decide about the pipeline."""
    made = open_pipeline(root, "added")
    try:
        since = (
            pin(made, at_hour(each, AT_ADDED + each), at_hour(each + 1, AT_ADDED + each + 1)) for each in range(3, 13)
        )
        for pinned in (*add_topic(made), *since):
            publish(made, pinned)
        yield made
    finally:
        shutil.rmtree(Path(urlsplit(root).path) / "added")


class TestByTime:
    def test_the_window_with_its_offsets_output_and_run_is_the_answer(self, get: Get) -> None:
        answer = get(at=AT[0]).json()
        (found,) = answer["windows"]
        assert (answer["at"], answer["key"], answer["places"], answer["nowhere"]) == (AT[0], None, [], None)
        assert (found["window"], found["revision"], found["state"], found["found"]) == (
            window(0),
            1,
            "verified",
            "published",
        )
        assert (found["attempt"], found["output"]) == ("a-1", f"file:///out/{window(0)}")
        assert (found["dag_id"], found["run_id"], found["task_id"]) == ("loads", "r-1", "load")
        assert found["ranges"] == [
            {
                "partition": 0,
                "start_offset": str(AT_T0),
                "end_offset": str(AT_T0 + OFFSETS),
                "offsets": OFFSETS,
                "lost": 0,
                "start_evidence": "matched",
                "end_evidence": "matched",
            }
        ]
        assert any("Late records" in remark for remark in found["remarks"])

    @pytest.mark.parametrize(("hour", "state"), [(5, "lost"), (6, "failed"), (7, "pinned")])
    def test_its_state_is_that_of_the_table(self, get: Get, hour: int, state: str) -> None:
        (found,) = get(at=AT[hour]).json()["windows"]
        assert (found["state"], found["found"], found["output"]) == (state, "pinned, not published", None)

    @pytest.mark.parametrize(
        ("at", "said"),
        [
            (AT[-1], "the first one"),
            (AT[2], "10 offsets of t lie between them"),
            (AT[8], "the last one"),
            ("1970-01-01T00:00Z", "the first one"),
            ("9999-12-31T23:59:59.999Z", "the last one"),
        ],
    )
    def test_where_no_window_has_it_the_answer_says_why(self, get: Get, at: str, said: str) -> None:
        answer = get(at=at).json()
        assert answer["windows"] == []
        assert said in answer["nowhere"]

    def test_a_partition_can_be_asked_for(self, get: Get, wide: Ledger) -> None:
        (found,) = get("admin", "wide", at=AT[1], partition=3).json()["windows"]
        assert [each["partition"] for each in found["ranges"]] == [3]
        assert get("admin", "wide", at=AT[0], partition=3).json()["nowhere"].startswith("t-3 isn't in ")

    def test_before_a_topic_was_added_its_first_window_is_named(self, get: Get, added: Ledger) -> None:
        answer = get(pipeline="added", topic=ADDED, at=AT[0]).json()
        assert f"its first window, {window(2)}, starts at the topic's log start" in answer["nowhere"]
        assert answer["windows"] == []


class TestByOffset:
    ASKED: ClassVar[dict[str, int]] = {"partition": 0, "offset": AT_T0 + 1}

    def test_the_answer_has_the_fields_of_every_other_one(self, get: Get) -> None:
        assert list(get(**self.ASKED).json()) == list(get(at=AT[0]).json()) == list(get(key=KEY).json())

    def test_its_place_is_the_answer(self, get: Get) -> None:
        answer = get(**self.ASKED).json()
        assert answer["places"] == [
            {
                "partition": 0,
                "found": "published",
                "window": window(0),
                "revision": 1,
                "attempt": "a-1",
                "output": f"file:///out/{window(0)}",
                "dag_id": "loads",
                "run_id": "r-1",
                "task_id": "load",
            }
        ]
        assert (answer["key"], answer["at"], answer["windows"], answer["nowhere"]) == (None, None, [], None)

    def test_of_an_attempt_whose_note_names_no_task_no_run_is_told(self, get: Get, shared: Ledger) -> None:
        pinned = resolve(shared, 12)
        shared.window_folders.of(pinned).record_attempt("c-1", {"airflow": None})
        publish(shared, pinned, "c-1")
        (place,) = get("admin", "shared", partition=0, offset=AT_T0 + 12 * OFFSETS).json()["places"]
        assert (place["found"], place["attempt"], place["dag_id"]) == ("published", "c-1", None)

    def test_a_stray_folder_hides_nothing(self, get: Get, shared: Ledger, root: str) -> None:
        stray = "windows/202611/20269999T999999999Z_20261199T999999999Z"
        (Path(urlsplit(root).path) / "shared" / stray).mkdir()
        for asked in (self.ASKED, {"at": AT[0]}, {"key": KEY, "at": AT[0]}):
            assert get("admin", "shared", **asked).status_code == 200


class TestByKey:
    def test_alone_it_says_the_partition_and_what_that_rests_on(self, get: Get, wide: Ledger) -> None:
        answer = get("admin", "wide", key=KEY).json()
        newest = {"partition": partition_of_key(KEY.encode(), PARTITIONS), "partition_count": PARTITIONS}
        assert answer["key"]["key"] == KEY
        assert answer["key"]["partitions"] == [
            newest | {"since": iso_instant(T0 + 2 * HOUR_MS)},
            {"partition": 0, "partition_count": 1, "since": iso_instant(T0)},
        ]
        assert any("CRC32" in remark for remark in answer["key"]["remarks"])
        assert any("Partitions were added" in remark for remark in answer["key"]["remarks"])
        assert (answer["places"], answer["windows"], answer["nowhere"]) == ([], [], None)

    def test_with_an_offset_it_is_looked_up_in_each_of_the_partitions(self, get: Get, wide: Ledger) -> None:
        places = get("admin", "wide", key=KEY, offset=AT_T0 + 1).json()["places"]
        assert [place["partition"] for place in places] == [partition_of_key(KEY.encode(), PARTITIONS), 0]
        assert [places[1]] == get("admin", "wide", partition=0, offset=AT_T0 + 1).json()["places"]
        assert places[1]["window"] == window(0)

    def test_with_a_time_its_partitions_offsets_are_shown_alone(self, get: Get, wide: Ledger) -> None:
        (found,) = get("admin", "wide", key=KEY, at=AT[1]).json()["windows"]
        assert {each["partition"] for each in found["ranges"]} == {0, partition_of_key(KEY.encode(), PARTITIONS)}

    @pytest.mark.parametrize("key", ["", "<script>alert(1)</script>", "ключ", "\x00", "k" * 1_000])
    def test_any_text_is_a_key_and_comes_back_as_json(self, get: Get, key: str) -> None:
        answer = get(key=key, at=AT[0])
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["key"]["key"] == key
        assert len(answer.json()["windows"]) == 1


class TestRefused:
    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            ({}, "Which record? Give an offset, an instant (at), or a key."),
            ({"partition": 0}, "Which record of t-0?"),
            ({"offset": 1}, "give the partition, or the record's key"),
            ({"partition": 0, "key": KEY, "offset": 1}, "Leave the partition out"),
            ({"partition": 0, "offset": 1, "at": AT[0]}, "Leave the instant out"),
            ({"at": ""}, "'' is not an instant"),
            ({"at": "<script>"}, "is not an instant"),
            ({"at": "2026-11-21T06:00:00"}, "has no time zone"),
            ({"at": "+58858-12-01T00:00:00.000Z"}, "is not an instant"),
            ({"at": "1969-12-31T23:59:59Z"}, "lies before 1970"),
            ({"at": "1795240800000"}, "is not an instant"),
            ({"at": f"{AT[0]}\0"}, "is not an instant"),
            ({"at": AT[8], "topic": "other"}, "has no topic 'other'; it has t."),
            ({"key": KEY, "topic": "<script>"}, "has no topic '<script>'; it has t."),
        ],
    )
    def test_a_question_that_makes_no_sense_is_answered_with_what_to_do(
        self, get: Get, asked: dict[str, Any], said: str
    ) -> None:
        answer = get(**asked)
        assert answer.status_code == 400
        assert said in answer.json()["detail"]
        assert answer.headers["content-type"] == "application/json"

    @pytest.mark.parametrize(
        "asked",
        [{"key": "k" * 1_001}, {"key": "k" * 10_000}, {"at": "2" * 41}, {"partition": "", "at": AT[0]}, {"offset": -1}],
    )
    def test_what_is_too_long_or_no_number_is_refused(self, get: Get, asked: dict[str, Any]) -> None:
        assert get(**asked).status_code == 422

    @pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
    def test_it_is_only_asked_for(self, log_in: As, method: str) -> None:
        address = f"/api/pipelines/troubled/records?topic=t&key={KEY}"
        assert log_in("admin").request(method.upper(), address).status_code == 405


class TestWhose:
    """Who may not read a Dag that made what an answer would show gets none."""

    QUESTIONS = ({"at": AT[0]}, {"key": KEY, "at": AT[0]}, {"key": KEY, "offset": AT_T0 + 1})

    @pytest.mark.parametrize("asked", QUESTIONS)
    def test_a_window_that_another_dag_has_tried_is_shown_to_those_who_may_read_both(
        self, get: Get, shared: Ledger, asked: dict[str, Any]
    ) -> None:
        shared.window_folders.newest(window(0)).record_attempt("b-1", OF_SECRET)
        answers = {role: get(role, "shared", **asked) for role in ("viewer", "admin")}
        assert {role: answer.status_code for role, answer in answers.items()} == {"viewer": 403, "admin": 200}
        assert answers["viewer"].json()["detail"] == (
            "Another Dag has loaded a window in this answer, and you may not read that Dag."
        )
        assert window(0) in answers["admin"].text
        assert get("viewer", "shared", at=AT[1]).status_code == 200, "that one is another Dag's"

    def test_of_several_windows_all_have_to_be_ones_own(self, get: Get, shared: Ledger) -> None:
        """A day over the hours."""
        day = [
            snapshot({0: AT_T0 + hour * OFFSETS}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER_MS)
            for hour in (0, 24)
        ]
        pinned = pin_window(shared, *shared.snapshots.append(day), on_overlap="allow")
        assert len(get("viewer", "shared", at=AT[0]).json()["windows"]) == 2
        shared.window_folders.of(pinned).record_attempt("b-1", OF_SECRET)
        assert get("viewer", "shared", at=AT[1]).status_code == 403
        assert len(get("admin", "shared", at=AT[1]).json()["windows"]) == 2

    def test_a_forgotten_window_is_named_to_those_who_may_read_the_dag_that_loaded_it(
        self, get: Get, shared: Ledger
    ) -> None:
        shared.window_folders.newest(window(0)).record_attempt("b-1", OF_SECRET)
        forget_windows(shared, [window(0), window(1)], "a test")
        assert get("viewer", "shared", at=AT[0]).status_code == 403
        assert f"{window(0)} had it, but was forgotten" in get("admin", "shared", at=AT[0]).json()["nowhere"]
        assert f"{window(1)} had it, but was forgotten" in get("viewer", "shared", at=AT[1]).json()["nowhere"]

    @pytest.mark.parametrize("at", [AT[0], AT[-1]])
    def test_the_first_window_of_a_topic_is_named_to_those_who_may_read_the_dag_that_loaded_it(
        self, get: Get, added: Ledger, at: str
    ) -> None:
        added.window_folders.newest(window(2)).record_attempt("b-1", OF_SECRET)
        assert get("viewer", "added", topic=ADDED, at=at).status_code == 403
        assert window(2) in get("admin", "added", topic=ADDED, at=at).json()["nowhere"]

    @pytest.mark.parametrize("asked", [*QUESTIONS, {"key": KEY}, {"at": "no instant"}, {}])
    def test_of_a_pipeline_that_one_may_not_read_nothing_is_told(self, get: Get, asked: dict[str, Any]) -> None:
        answers = [get("viewer", pipeline, **asked) for pipeline in ("secret", "unloaded", "nowhere")]
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.text for answer in answers}) == 1

    @pytest.mark.parametrize(("role", "status"), [(None, 401), ("", 403)])
    def test_without_the_right_to_see_plugins_there_is_no_answer(
        self, log_in: As, role: str | None, status: int
    ) -> None:
        assert log_in(role).get(f"/api/pipelines/troubled/records?topic=t&at={AT[0]}").status_code == status
