"""Records on the page, by their offsets: the answers, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.loads import AT_T0, OFFSETS, load, pin, publish, window
from tests.integration.page.conftest import As, MakePipeline
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

Get = Callable[..., httpx.Response]
BY_HAND = {"by_hand": "somebody"}


@pytest.fixture
def get(log_in: As) -> Get:
    """Ask for records of ``troubled``, or of another pipeline. The page is a new one, that has kept nothing."""
    app = make_app()

    def ask(role: str = "viewer", pipeline: str = "troubled", **asked: Any) -> httpx.Response:
        browser = TestClient(app, cookies=log_in(role).cookies, raise_server_exceptions=False)
        usual: dict[str, Any] = {"topic": "t", "partition": 0}
        return browser.get(f"/api/pipelines/{pipeline}/records", params=usual | asked)

    return ask


class TestPlace:
    def test_has_the_window_its_output_and_the_run_that_loaded_it(self, get: Get) -> None:
        (place,) = get(offset=AT_T0 + 1).json()["places"]
        assert (place["where"], place["window"], place["state"]) == ("window", window(0), "verified")
        assert place["output"] == f"file:///out/{window(0)}"
        assert (place["dag_id"], place["run_id"], place["task_id"]) == ("loads", "r-1", "load")

    @pytest.mark.parametrize(
        ("offset", "where", "hour", "state"),
        [
            (AT_T0 + 5 * OFFSETS, "lost", 5, "published"),
            (AT_T0 + 5 * OFFSETS + 3, "window", 5, "published"),
            (AT_T0 + 6 * OFFSETS, "window", 6, "failed"),
            (AT_T0 + 7 * OFFSETS, "window", 7, "pinned"),
        ],
    )
    def test_says_how_far_its_window_has_come(self, get: Get, offset: int, where: str, hour: int, state: str) -> None:
        (place,) = get(offset=offset).json()["places"]
        assert (place["where"], place["window"], place["state"]) == (where, window(hour), state)
        failure = place["failure"]
        assert (failure and (failure["error"], failure["why"])) == (
            ("UnprovenError", "What was read or written differs from the manifest") if state == "failed" else None
        )

    @pytest.mark.parametrize(
        ("offset", "where", "earlier", "later"),
        [
            (AT_T0 - 1, "before", None, 0),
            (AT_T0 + 2 * OFFSETS, "hole", 1, 3),
            (AT_T0 + 8 * OFFSETS, "after", 7, None),
            (2**63 - 1, "after", 7, None),
        ],
    )
    def test_names_the_windows_beside_it_where_none_has_it(
        self, get: Get, offset: int, where: str, earlier: int | None, later: int | None
    ) -> None:
        (place,) = get(offset=offset).json()["places"]
        beside = [None if hour is None else window(hour) for hour in (earlier, later)]
        assert (place["where"], place["window"], [place["earlier"], place["later"]]) == (where, None, beside)

    @pytest.mark.parametrize("asked", [{"partition": 9}, {"topic": "other"}])
    def test_is_nowhere_where_no_window_has_the_partition(self, get: Get, asked: dict[str, Any]) -> None:
        assert get(offset=1, **asked).json()["places"] == []

    def test_is_one_in_each_log_that_the_topic_has_had(self, get: Get, make_pipeline: MakePipeline) -> None:
        again = make_pipeline("again")
        load(again, 0)
        wish = Restarted(T0 + HOUR_MS + 1, ("t",), "it was re-created")
        again.change(lambda state: corrections.restart(state, wish, again.contents))
        since = [
            snapshot({0: offset}, at_ms=T0 + hour * HOUR_MS, topic_id="id-2") for hour, offset in ((2, 0), (3, 20_000))
        ]
        publish(again, pin(again, *since), BY_HAND)
        places = get("admin", "again", offset=AT_T0 + 1).json()["places"]
        assert [place["window"] for place in places] == [window(0), window(2)]
        assert (places[1]["dag_id"], places[1]["by_hand"]) == (None, "somebody")


class TestRefused:
    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"offset": ""},
            {"offset": -1},
            {"offset": 2**63},
            {"offset": 1, "partition": -1},
            {"offset": 1, "partition": ""},
            {"offset": 1, "topic": "t" * 250},
        ],
    )
    def test_a_question_that_makes_no_sense(self, get: Get, asked: dict[str, Any]) -> None:
        assert get(**asked).status_code == 422

    @pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
    def test_anything_but_a_question(self, log_in: As, method: str) -> None:
        address = f"/api/pipelines/troubled/records?topic=t&partition=0&offset={AT_T0}"
        assert log_in("admin").request(method.upper(), address).status_code == 405

    def test_a_question_about_a_pipeline_that_one_may_not_read(self, get: Get) -> None:
        answers = [get("viewer", pipeline, offset=1) for pipeline in ("secret", "unloaded", "nowhere")]
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.text for answer in answers}) == 1

    @pytest.mark.parametrize(("role", "status"), [(None, 401), ("", 403)])
    def test_whoever_may_not_see_plugins(self, log_in: As, role: str | None, status: int) -> None:
        answer = log_in(role).get(f"/api/pipelines/troubled/records?topic=t&partition=0&offset={AT_T0}")
        assert answer.status_code == status
