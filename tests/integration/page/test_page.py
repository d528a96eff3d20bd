"""The page "Kafka windows": who may see what, and that it says what the commands say."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from airflow.sdk import ObjectStoragePath
from starlette.routing import Route
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.lineage.links import window_page
from airflow_kafka_offsets.lineage.task_window import TaskWindow
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.audits.report import Finding, PartitionCounts, Problem
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.page.app import make_app
from dev import ROOT
from tests.integration.ledger.loads import AT_T0, LATER_MS, OFFSETS, begin, load, pin, publish, resolve, window
from tests.integration.page.auth_manager import HALF
from tests.integration.page.conftest import OF_SECRET, RECORD_CONTENT, As, MakePipeline, make_trouble
from tests.patience import PATIENCE_S
from tests.unit.offsets.builders import HOUR_MS, T0, boundary, snapshot
from tests.unit.pipelines.reports import complete, recorded

ASKED = {"X-Requested-With": "fetch"}
"""What the page's own requests have, without which none asks Kafka."""
STATIC = ROOT / "airflow_kafka_offsets" / "page" / "static"


def all_addresses(pipeline: str = "troubled") -> list[str]:
    """Every route that the app has, filled in."""
    queries = {"records": f"?topic=t&partition=0&offset={AT_T0}", "offsets": "?topic=t"}
    routes = [route for route in make_app().routes if isinstance(route, Route)]
    assert all(route.methods in ({"GET"}, {"GET", "HEAD"}) for route in routes)
    paths = [route.path_format.format(pipeline=pipeline, window=window(0), name="page.js") for route in routes]
    return [path + queries.get(path.rpartition("/")[2], "") for path in paths]


def with_added_topic(hour: int) -> OffsetSnapshot:
    taken = snapshot({0: AT_T0 + hour * OFFSETS}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER_MS)
    facts = TopicFacts("added", "id-2", 1, "delete", -1, -1, "CreateTime")
    added = boundary(0, AT_T0 + hour * OFFSETS, topic="added")
    return replace(
        taken,
        topics={**taken.topics, "added": facts},
        boundaries={**taken.boundaries, TopicPartition("added", 0): added},
    )


def with_topics(hour: int, facts: list[tuple[str | None, int | None]]) -> OffsetSnapshot:
    """Topics of a partition each, by cleanup policy and retention."""
    taken = snapshot({0: AT_T0 + hour * OFFSETS}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER_MS)
    topics = {f"t{n}": TopicFacts(f"t{n}", f"id-{n}", 1, policy, ms, -1) for n, (policy, ms) in enumerate(facts)}
    boundaries = [boundary(0, AT_T0 + hour * OFFSETS, topic=topic) for topic in topics]
    return replace(taken, topics=topics, boundaries={TopicPartition(each.topic, 0): each for each in boundaries})


def wait_until_known(browser: TestClient, address: str) -> int:
    """What is new is read at most every two seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := browser.get(address).status_code) == 404 and time.monotonic() < deadline:
        time.sleep(0.1)
    return int(found)


def files_of(root: str) -> dict[str, bytes]:
    folder = Path(urlsplit(root).path)
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


class TestPermissions:
    @pytest.mark.parametrize(("role", "status"), [(None, 401), ("", 403), ("viewer", 200)])
    def test_every_route_asks_who_asks(self, log_in: As, role: str | None, status: int) -> None:
        addresses = all_addresses()
        assert len(addresses) == 9
        answers = {address: log_in(role).get(address, headers=ASKED).status_code for address in addresses}
        asks_kafka = answers.pop("/api/waits/now")
        assert answers == dict.fromkeys(answers, status)
        assert asks_kafka == (400 if status == 200 else status), "no setting names a connection"

    def test_a_cookie_that_airflow_has_not_signed_is_refused(self, log_in: As) -> None:
        with log_in(None) as browser:
            browser.cookies.set("_token", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1In0.")
            assert browser.get("/api/pipelines").status_code in (401, 403)

    @pytest.mark.parametrize(
        ("role", "seen"), [("viewer", ["troubled"]), ("admin", ["damaged", "secret", "torn", "troubled", "unloaded"])]
    )
    def test_a_pipeline_is_listed_for_those_who_may_read_its_dags(self, log_in: As, role: str, seen: list[str]) -> None:
        """Of one that is damaged, or that nobody has loaded yet, no Dag is known."""
        answer = log_in(role).get("/api/pipelines").json()
        assert [each["pipeline"] for each in answer["pipelines"]] == seen

    def test_with_teams_a_dag_that_airflow_does_not_know_is_for_those_who_may_read_all(
        self, log_in: As, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Which team a Dag was of is gone with it, and without one it would be everybody's."""
        monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
        seen = {}
        for role in ("viewer", "admin"):
            browser = TestClient(make_app(), cookies=log_in(role).cookies)
            seen[role] = [row["pipeline"] for row in browser.get("/api/pipelines").json()["pipelines"]]
        assert (seen["viewer"], "troubled" in seen["admin"]) == ([], True)

    @pytest.mark.parametrize("pipeline", ["secret", "unloaded", "damaged", "torn"])
    def test_others_are_told_what_they_are_told_of_one_that_is_not_there(self, log_in: As, pipeline: str) -> None:
        addresses = [address for address in all_addresses(pipeline) if pipeline in address]
        assert len(addresses) == 4
        answers = [log_in("viewer").get(address, headers=ASKED) for address in (*addresses, "/api/pipelines/nowhere")]
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.text for answer in answers}) == 1

    def test_a_window_and_its_records_are_for_those_who_may_read_every_dag_that_tried_it(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        """Also one before the last ten, whose Dags decide about the pipeline."""
        mixed = make_pipeline("mixed")
        begin(mixed, resolve(mixed, 0), OF_SECRET)
        for hour in range(1, 12):
            load(mixed, hour)
        answers = {}
        for role in ("viewer", "admin"):
            browser = TestClient(make_app(), cookies=log_in(role).cookies)
            for hour in (0, 1):
                record = f"topic=t&partition=0&offset={AT_T0 + hour * OFFSETS}"
                for what in (f"windows/{window(hour)}", f"records?{record}"):
                    answers[role, hour, what[:7]] = browser.get(f"/api/pipelines/mixed/{what}").status_code
        refused = {key for key, status in answers.items() if status == 403}
        assert refused == {("viewer", 0, "windows"), ("viewer", 0, "records")}
        assert {*answers.values()} == {200, 403}

    def test_every_answer_forbids_scripts_of_others_and_frames(self, log_in: As) -> None:
        for role in (None, "viewer"):
            for address in all_addresses():
                policy = log_in(role).get(address).headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "script-src 'self';" in policy
                assert "frame-ancestors 'none'" in policy


class TestSaysWhatTheCommandsSay:
    def test_reading_writes_nothing(self, log_in: As, root: str) -> None:
        before = files_of(root)
        for address in all_addresses():
            log_in("viewer").get(address)
        assert files_of(root) == before

    def test_an_overview_has_the_holes_of_ledger_verify(self, log_in: As, tmp_path: Path) -> None:
        # Verify corrects lists of files; the ledger that the page shows stays as it is.
        make_trouble((tmp_path / "same").as_uri())
        claims = verify(Ledger(ObjectStoragePath((tmp_path / "same").as_uri()), "troubled"))
        (row,) = log_in("viewer").get("/api/pipelines").json()["pipelines"]
        holes = [claim.found for claim in claims if claim.claim == "hole"]
        assert [hole["words"] for hole in row["holes"]] == holes != []
        assert (row["published"], row["windows"]) == (window(5), 7)
        assert [(each["window"], each["error"]) for each in row["failures"]] == [(window(6), "UnprovenError")]
        assert row["rows"] == [*[OFFSETS] * 4, OFFSETS - 3]
        assert row["dag_ids"] == ["loads"]
        assert row["unloaded_from_ms"] == T0 + 2 * HOUR_MS, "where the hole begins"
        assert row["states"] == {"verified": 4, "published": 1, "failed": 1, "pinned": 1}
        assert (row["lost_offsets"], row["losses"]) == (3, [f"3 offsets of window {window(5)}"])
        assert row["gone_offsets"] == 0
        assert row["retention_ms"] == -1

    def test_a_damaged_ledger_says_what_is_wrong(self, log_in: As) -> None:
        rows = {each["pipeline"]: each for each in log_in("admin").get("/api/pipelines").json()["pipelines"]}
        for name in ("damaged", "torn"):
            assert f"{name}/log/00000/00000001.json is damaged" in rows[name]["error"]

    def test_the_table_has_each_window_as_it_is_and_the_hole_between(self, log_in: As) -> None:
        answer = log_in("viewer").get("/api/pipelines/troubled").json()
        states = [each["state"] for each in answer["entries"]]
        assert states == ["verified", "verified", "hole", "verified", "verified", "published", "failed", "pinned"]
        assert (answer["entries"][2]["offsets"], answer["entries"][2]["worst"]) == (OFFSETS, f"t-0 ({OFFSETS})")
        assert answer["entries"][0]["offsets"] == OFFSETS
        assert [each.get("rows") for each in answer["entries"]] == [*[10] * 2, None, *[10] * 2, 7, None, None]
        assert [each.get("lost") for each in answer["entries"]] == [0, 0, None, 0, 0, 3, 0, 0]
        failed = answer["entries"][6]["failure"]
        assert (failed["error"], failed["why"]) == (
            "UnprovenError",
            "What was read or written differs from the manifest",
        )
        assert "once the job or the sink is mended" in failed["helps"], "clearing it alone can't help"

    def test_a_hole_at_the_edge_of_what_is_shown_is_shown(self, log_in: As) -> None:
        answer = log_in("viewer").get("/api/pipelines/troubled", params={"most": 5}).json()
        assert [each["kind"] for each in answer["entries"]] == ["hole", *["window"] * 5]
        assert answer["more"]
        earlier = log_in("viewer").get("/api/pipelines/troubled", params={"before": window(3)}).json()
        assert [each["window"] for each in earlier["entries"]] == [window(0), window(1)]
        assert not earlier["more"]

    def test_a_windows_panel_has_its_proof_and_who_loaded_it(self, log_in: As) -> None:
        answer = log_in("viewer").get(f"/api/pipelines/troubled/windows/{window(0)}").json()
        stands, (attempt,) = answer["publication"], answer["attempts"]
        assert (stands["verdict"], stands["attempt"]) == ("read = written = log", attempt["attempt"])
        assert (stands["read"], stands["written"], answer["offsets"]) == (OFFSETS, OFFSETS, OFFSETS)
        assert answer["manifest"].endswith(f"{window(0)}/{answer['sha256']}.json")
        assert (attempt["dag_id"], attempt["run_id"], attempt["task_id"]) == ("loads", "r-1", "load")
        assert [(run["run"], run["written"]) for run in attempt["runs"]] == [(stands["run"], OFFSETS)]
        assert {each["start_evidence"] for each in answer["ranges"]} <= answer["evidence"].keys()
        assert (answer["state"], answer["said"].startswith("Published, and proved")) == ("verified", True)

    def test_a_windows_panel_and_a_record_have_what_audits_have_found(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        audited = make_pipeline("audited")
        made = resolve(audited, 0)
        manifest = audited.pinned(made).manifest
        (whole,) = [each.log_range for each in manifest.ranges]
        checksum = Checksum.of(manifest).every_offset([whole]).checksum
        report = replace(
            complete(manifest),
            counts={"missing": 2},
            findings=(Finding(Problem.MISSING, "t", 0, AT_T0 + 3, AT_T0 + 5, 2, T0, T0, "0" * 16),),
            partitions=(PartitionCounts(*whole, OFFSETS - 2, 7, OFFSETS, checksum),),
            audited_ms=LATER_MS,
        )
        assert recorded(audited, report, dag_id="loads", run_id="r-1", task_id="audit") == report
        browser = TestClient(make_app(), cookies=log_in("viewer").cookies)
        (shown,) = browser.get(f"/api/pipelines/audited/windows/{made.name}").json()["audits"]
        assert (shown["table"], shown["found"], shown["rows"], shown["records"]) == (
            "lake.t",
            "2 records missing",
            8,
            10,
        )
        assert (shown["audited_ms"], shown["run_id"], shown["task_id"]) == (LATER_MS, "r-1", "audit")
        (named,) = shown["ranges"]
        assert (named["problem"], named["start_offset"], named["last_offset"]) == ("missing", 10003, 10004)
        for offset, words in ((4, "; this one is missing"), (5, "")):
            query = {"topic": "t", "partition": 0, "offset": AT_T0 + offset}
            (place,) = browser.get("/api/pipelines/audited/records", params=query).json()["places"]
            assert place["audits"] == f"lake.t: 2 records missing{words}"

    def test_what_was_lost_before_a_load_is_in_the_panel_by_partition(self, log_in: As) -> None:
        answer = log_in("viewer").get(f"/api/pipelines/troubled/windows/{window(5)}").json()
        assert (answer["state"], answer["lost"], answer["attempts"][0]["lost"]) == ("published", 3, 3)
        assert [(each["lost"], each["rows"]) for each in answer["ranges"]] == [(3, OFFSETS - 3)]
        assert answer["publication"]["verdict"] == "read = written = log, 3 offsets lost before"

    def test_a_window_that_is_to_be_loaded_again_says_so_and_keeps_its_rows(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        again = make_pipeline("again")
        load(again, 0)
        again.change(lambda state: load_decisions.reload(state, [window(0)]))
        browser = TestClient(make_app(), cookies=log_in("viewer").cookies)
        before = browser.get(f"/api/pipelines/again/windows/{window(0)}").json()
        begin(again, again.window(window(0)))
        browser = TestClient(make_app(), cookies=log_in("viewer").cookies)
        during = browser.get(f"/api/pipelines/again/windows/{window(0)}").json()
        assert [(each["state"], each["again"]) for each in (before, during)] == [("pinned", True), ("loading", True)]
        assert [len(each["attempts"]) for each in (before, during)] == [1, 2]
        assert during["publication"]["written"] == OFFSETS

    @pytest.mark.parametrize(("dag_id", "role", "shown"), [(HALF, "viewer", False), (HALF, "admin", True)])
    def test_what_a_driver_said_is_for_those_who_may_read_the_logs_of_its_dag(
        self, log_in: As, make_pipeline: MakePipeline, dag_id: str, role: str, shown: bool
    ) -> None:
        """It may quote a record. Why it failed is told without it too."""
        half = make_pipeline("half")
        failed = resolve(half, 0)
        attempt = begin(half, failed, {"dag_id": dag_id, "run_id": "r", "task_id": "load"})
        half.attempt(failed.name, attempt.number).record_failure(FailureNote("UnprovenError", RECORD_CONTENT))
        browser = TestClient(make_app(), cookies=log_in(role).cookies)
        answers = [browser.get(f"/api/pipelines/half{what}") for what in ("", f"/windows/{failed.name}")]
        failure = answers[1].json()["attempts"][0]["failure"]
        assert (failure["error"], failure.get("message")) == ("UnprovenError", RECORD_CONTENT if shown else None)
        assert [RECORD_CONTENT in answer.text for answer in answers] == [False, shown]

    def test_a_window_that_was_pinned_since_is_found(self, log_in: As, make_pipeline: MakePipeline) -> None:
        """A task links to it at once."""
        grown = make_pipeline("grown")
        load(grown, 0)
        browser = TestClient(make_app(), cookies=log_in("viewer").cookies)
        address = f"/api/pipelines/grown/windows/{window(1)}"
        assert browser.get("/api/pipelines/grown").status_code == 200
        load(grown, 1)
        assert wait_until_known(browser, address) == 200

    def test_a_topic_that_was_added_later_is_one_of_the_pipelines(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        """The ledger's first commit keeps the first list; the newest snapshot has those of today."""
        grown = make_pipeline("grown")
        load(grown, 0)
        publish(grown, pin(grown, *map(with_added_topic, (1, 2))))
        browser = TestClient(make_app(), cookies=log_in("viewer").cookies)
        answer = browser.get("/api/pipelines/grown").json()
        asked = f"topic=added&partition=0&offset={AT_T0 + OFFSETS}"
        (found,) = browser.get(f"/api/pipelines/grown/records?{asked}").json()["places"]
        assert answer["overview"]["topics"] == ["added", "t"]
        assert [each["offsets"] for each in answer["entries"]] == [OFFSETS, AT_T0 + 3 * OFFSETS]
        assert (found["where"], found["window"]) == ("window", window(1))


class TestRetention:
    """How long Kafka keeps what isn't loaded: by the topic that it keeps for the shortest time."""

    @pytest.mark.parametrize(
        ("facts", "kept_ms"),
        [
            ([("delete", HOUR_MS), ("delete", 2 * HOUR_MS)], HOUR_MS),
            ([("delete", HOUR_MS), ("delete", -1)], HOUR_MS),
            ([("compact", HOUR_MS), ("delete", -1)], -1),
            ([("compact,delete", HOUR_MS), ("compact", 1)], HOUR_MS),
            ([("delete", HOUR_MS), ("delete", None)], None),
            ([("delete", HOUR_MS), (None, None)], None),
        ],
    )
    def test_is_that_of_all_topics(
        self,
        log_in: As,
        make_pipeline: MakePipeline,
        facts: list[tuple[str | None, int | None]],
        kept_ms: int | None,
    ) -> None:
        kept = make_pipeline("kept")
        pin(kept, *(with_topics(hour, facts) for hour in (0, 1)))
        row = TestClient(make_app(), cookies=log_in("admin").cookies).get("/api/pipelines/kept").json()["overview"]
        assert (row["retention_ms"], row["unloaded_from_ms"]) == (kept_ms, T0), "its first load may be too late already"


class TestTheLinkBesideATask:
    """Airflow shows no relative link: it leads to where Airflow's own links do."""

    @pytest.fixture
    def seen(self, root: str, monkeypatch: pytest.MonkeyPatch) -> TaskWindow:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/sub/")
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", root)
        ledger = Ledger(ObjectStoragePath(root), "troubled")
        return TaskWindow.of(ledger.pinned(ledger.window(window(0))))

    def test_it_leads_to_the_window_on_the_page(self, seen: TaskWindow) -> None:
        address = f"https://airflow.example.org/sub/kafka-windows/#/p/troubled/w/{window(0)}"
        assert window_page(seen) == address

    @pytest.mark.parametrize("other", ["", "file:///elsewhere", "nonsense://elsewhere"])
    def test_the_page_has_no_ledger_below_another_root(
        self, seen: TaskWindow, other: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", other)
        assert window_page(seen) == "", "a file has no page either"

    def test_without_airflows_address_it_is_the_one_that_airflow_takes_then(
        self, seen: TaskWindow, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a fresh installation, such as ``airflow standalone``; on a store that machines share it leads nowhere."""
        monkeypatch.delenv("AIRFLOW__API__BASE_URL")
        assert window_page(seen) == f"http://localhost:8080/kafka-windows/#/p/troubled/w/{window(0)}"
        shared = replace(seen, uri=seen.uri.replace("file://", "abfs://lake@account"))
        assert window_page(shared) == ""


class TestTheFiles:
    def test_the_server_has_all_that_the_page_names_and_nothing_beside(self, log_in: As) -> None:
        browser = log_in("viewer")
        html = browser.get("/").text
        named = re.findall(r'(?:src|href)="(static/[^"]+)"', html)
        assert len(named) == 4
        imported = {
            f"static/{name}"
            for file in STATIC.glob("*.js")
            for name in re.findall(r'^import .* from "\./(.+)";$', file.read_text(encoding="utf-8"), re.MULTILINE)
        }
        assert {name: browser.get(f"/{name}").status_code for name in {*named, *imported}} == dict.fromkeys(
            {*named, *imported}, 200
        )
        for name in ("index.html", "vendor/uplot/README.md", "../app.py", "vendor/../../app.py", "%2e%2e/app.py"):
            assert browser.get(f"/static/{name}").status_code == 404

    @pytest.mark.parametrize("name", sorted(each.name for each in STATIC.iterdir() if each.is_file()))
    def test_ask_no_other_server_and_set_no_html(self, name: str) -> None:
        source = (STATIC / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        words = ("http:", "https:", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
        assert [word for word in words if word in source] == []
