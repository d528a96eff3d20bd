"""Publishing: what drivers have counted becomes what counts, in one order, whoever asks and whatever pauses where."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    ClusterUnreachableError,
    ConfigurationError,
    CountedTwiceError,
    LedgerConflictError,
    TopicChangedError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.audit import RunResult, Tally
from airflow_kafka_offsets.offsets.publication import Publication
from airflow_kafka_offsets.offsets.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.publisher import CountedAttempt, counted_attempt, publish
from dev.kafka import Broker
from tests.integration.airflow.conftest import (
    Context,
    InSparksPlace,
    Resolve,
    Run,
    at,
    fails_with,
    recreate,
)
from tests.integration.airflow.windows.conftest import COUNT, XCom, load
from tests.integration.client.cases.workload import connected_client
from tests.unit.offsets.results import run_result, tallies, tally_of

Count = Callable[..., CountedAttempt]
NEVER = 'raise SystemExit("Spark was started")'


@pytest.fixture
def window(ten: str, resolve: Resolve) -> XCom:
    """Five records, resolved and not loaded."""
    return resolve(ten, at(2), at(7))


@pytest.fixture
def pinned(window: XCom, ledger: Ledger) -> PinnedManifest:
    return ledger.pinned(window["window"])


@pytest.fixture
def count(ledger: Ledger) -> Count:
    """Leave in the ledger what a driver leaves that has read and written each offset once."""

    def leave(pinned: PinnedManifest, attempt: str = "a-1", **fields: Any) -> CountedAttempt:
        folder = ledger.folder_of(pinned)
        folder.record_attempt(attempt, {})
        folder.record_result(run_result(pinned.manifest, tallies(pinned.manifest), attempt=attempt, **fields))
        counted = counted_attempt(ledger, pinned, attempt)
        assert counted is not None
        return counted

    return leave


def revised(ledger: Ledger, pinned: PinnedManifest) -> PinnedManifest:
    """The window resolved anew, to another snapshot at its end with the same offsets."""
    end = ledger.snapshots.read(pinned.manifest.end_snapshot)
    stored = ledger.snapshots.append(replace(end, number=None, as_of=AsOf(AsOfKind.LATEST)))
    assert stored.number is not None
    return ledger.window_folders.pin_again(replace(pinned.manifest, end_snapshot=stored.number))


def left_of(ledger: Ledger, pinned: PinnedManifest) -> PinnedManifest:
    """What retention left of the window, as its next revision."""
    (only,) = pinned.manifest.ranges
    return ledger.window_folders.pin_again(
        replace(pinned.manifest, ranges=(replace(only, start_offset=only.start_offset + 1, lost_offsets=1),))
    )


def published(ledger: Ledger, pinned: PinnedManifest) -> list[tuple[int, int, str, int | None]]:
    """Number, revision, attempt and what each replaces."""
    found = ledger.folder_of(pinned).publications.all()
    return [(each.number, each.revision, each.attempt, each.replaces) for each in found]


class TestOneAttempt:
    def test_it_is_published_once_whoever_asks_how_often(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        first = publish(client, ledger, counted)
        assert publish(client, ledger, counted) == first
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]
        assert (first.rows, first.output, first.result_sha256) == (5, "file:/out", counted.sha256)

    def test_what_is_not_proved_is_not_published(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        (only,) = pinned.manifest.ranges
        short = [tally_of(only.topic, 0, range(only.start_offset, only.end_offset - 1))]
        ledger.folder_of(pinned).record_result(run_result(pinned.manifest, short, read=Tally(5)))
        counted = counted_attempt(ledger, pinned, "a-1")
        assert counted is not None
        with pytest.raises(UnprovenError, match=r"is not published: .*read 5 rows, wrote 4") as refused:
            publish(client, ledger, counted)
        assert not isinstance(refused.value, CountedTwiceError)
        assert published(ledger, pinned) == []

    def test_a_topic_that_was_made_again_after_the_read_is_not_published(
        self, admin: KafkaAdminClient, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        (topic,) = pinned.manifest.topics
        recreate(admin, topic)
        with pytest.raises(TopicChangedError, match=r"re-created.* which attempt a-1 had loaded by then, is not publ"):
            publish(client, ledger, counted)
        assert published(ledger, pinned) == []

    def test_while_kafka_does_not_answer_nothing_is_published_and_nothing_lost(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        with connected_client("127.0.0.1:1", timeout_s=1) as unreachable, pytest.raises(ClusterUnreachableError):
            publish(unreachable, ledger, counted)
        assert published(ledger, pinned) == []
        assert publish(client, ledger, counted).number == 1

    def test_a_forgotten_revision_is_not_published(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        ledger.forget([pinned.manifest.window], "test")
        with pytest.raises(LedgerConflictError, match="was forgotten since it was resolved"):
            publish(client, ledger, counted)
        assert published(ledger, pinned) == []


class TestTwoAttempts:
    def test_the_first_one_counts(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        first, second = count(pinned, "a-1"), count(pinned, "a-2")
        assert publish(client, ledger, second).attempt == "a-2"
        assert publish(client, ledger, first).attempt == "a-2"

    def test_of_two_that_differ_the_second_one_says_so(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        publish(client, ledger, count(pinned, "a-1"))
        (rows,) = tallies(pinned.manifest)
        other = count(pinned, "a-2", read=Tally(5, checksum=7), output="file:/other")
        result = replace(other.result, written=(replace(rows, checksum=7),))
        with pytest.raises(UnprovenError, match=r"a-1 \(published, 5 rows\) and a-2 .* differ"):
            publish(client, ledger, replace(other, result=result))


class TestRevisions:
    def test_a_newer_one_takes_the_place_of_an_older_one_and_never_the_other_way(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        newer = revised(ledger, pinned)
        old, new = count(pinned, "a-1"), count(newer, "a-2")
        assert [publish(client, ledger, each).attempt for each in (old, new, old)] == ["a-1", "a-2", "a-2"]
        assert published(ledger, pinned) == [(1, 1, "a-1", None), (2, 2, "a-2", 1)]
        assert ledger.window_folders.publication(pinned.manifest.window) == published_as(ledger, pinned, 2)

    def test_the_newer_one_first_leaves_the_older_one_unpublished(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        newer = revised(ledger, pinned)
        old, new = count(pinned, "a-1"), count(newer, "a-2")
        assert [publish(client, ledger, each).attempt for each in (new, old)] == ["a-2", "a-2"]
        assert published(ledger, pinned) == [(1, 2, "a-2", None)]

    def test_what_a_loss_left_stands_back_behind_the_whole(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        whole, left = count(pinned, "a-1"), count(left_of(ledger, pinned), "a-2")
        assert [publish(client, ledger, each).attempt for each in (whole, left)] == ["a-1", "a-1"]

    def test_nor_does_the_whole_come_after_what_a_loss_left(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        """Whoever let a load clamp took what was left; the ledger says how much that lacks."""
        whole, left = count(pinned, "a-1"), count(left_of(ledger, pinned), "a-2")
        assert [publish(client, ledger, each).attempt for each in (left, whole)] == ["a-2", "a-2"]

    def test_in_a_table_the_whole_is_not_published_once_its_rows_may_be_replaced(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        """The ledger said 205 rows, and the table held 200."""
        table: dict[str, Any] = {"sink": "delta", "apart": False, "output": "lake.flights"}
        whole = count(pinned, "a-1", **table)
        left = left_of(ledger, pinned)
        ledger.folder_of(left).record_attempt("a-2", {})
        with pytest.raises(LedgerConflictError, match=r"Revision 2 .* is being loaded into lake\.flights"):
            publish(client, ledger, whole)
        folder = ledger.folder_of(left)
        folder.record_result(run_result(left.manifest, tallies(left.manifest), attempt="a-2", **table))
        counted = counted_attempt(ledger, left, "a-2")
        assert counted is not None
        assert publish(client, ledger, counted).rows == 4

    def test_in_a_table_the_last_one_written_is_the_last_one_published(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        table: dict[str, Any] = {"sink": "delta", "apart": False, "output": "lake.flights"}
        publish(client, ledger, count(pinned, "a-1", **table))
        left = count(left_of(ledger, pinned), "a-2", **table)
        assert publish(client, ledger, left).replaces == 1


class TestSideBySide:
    def test_many_publishers_of_many_revisions_end_in_one_order(
        self, broker: Broker, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        revisions = [pinned]
        for _ in range(3):
            revisions.append(revised(ledger, revisions[-1]))
        counted = [count(each, f"a-{each.manifest.revision}-{n}") for each in revisions for n in range(2)]
        ready = threading.Barrier(len(counted))

        def ask(each: CountedAttempt) -> Publication:
            with connected_client(broker.bootstrap_servers, timeout_s=60) as connected:
                connected.cluster_id()
                ready.wait()
                return publish(connected, ledger, each)

        with ThreadPoolExecutor(len(counted)) as threads:
            list(threads.map(ask, counted))
        found = published(ledger, pinned)
        assert [number for number, *_ in found] == list(range(1, len(found) + 1))
        assert [revision for _, revision, *_ in found] == sorted({revision for _, revision, *_ in found})
        assert found[-1][1] == 4
        assert [replaces for *_, replaces in found] == [None, *range(1, len(found))]

    def test_a_publisher_that_pauses_before_its_file_finds_a_newer_revision_there(
        self,
        broker: Broker,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: PinnedManifest,
        count: Count,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        newer = revised(ledger, pinned)
        old, new = count(pinned, "a-1"), count(newer, "a-2")
        create = Publications.create

        def pausing(self: Publications, ours: Publication) -> bool:
            if ours.attempt == "a-1":
                with connected_client(broker.bootstrap_servers) as another:
                    publish(another, ledger, new)
            return create(self, ours)

        monkeypatch.setattr(Publications, "create", pausing)
        assert publish(client, ledger, old).attempt == "a-2"
        assert published(ledger, pinned) == [(1, 2, "a-2", None)]
        assert [each.found for each in verify(ledger) if not each.holds] == []


def published_as(ledger: Ledger, pinned: PinnedManifest, number: int) -> Publication:
    return ledger.folder_of(pinned).publications.all()[number - 1]


@pytest.fixture
def publish_now(client: OffsetsClient, ledger: Ledger) -> Callable[[XCom], None]:
    """Publish what a window's only attempt has counted."""

    def ask(window: XCom) -> None:
        pinned = ledger.pinned(window["window"])
        (attempt,) = ledger.folder_of(pinned).listing().results
        counted = counted_attempt(ledger, pinned, attempt)
        assert counted is not None
        publish(client, ledger, counted)

    return ask


class TestARetry:
    """A worker that dies after Spark has ended leaves what the driver has counted."""

    @pytest.fixture
    def died(self, window: XCom, context: Context, in_sparks_place: InSparksPlace, ledger: Ledger) -> XCom:
        """A try whose driver has counted, and that never came to publish."""
        in_sparks_place(COUNT)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.operators.spark_submit.counted_attempt", died_here)
            with pytest.raises(KeyboardInterrupt):
                load(window).execute(context)
        assert ledger.window_folders.publication(window["window"]) is None
        in_sparks_place(NEVER)
        return window

    def test_it_publishes_without_spark(self, died: XCom, context: Context, ledger: Ledger) -> None:
        report = load(died).execute(context)
        assert (report["rows"], report["attempt"]) == (5, report["published_attempt"])
        assert ledger.window_folders.publication(died["window"]) is not None

    def test_once_it_is_published_the_next_try_reports_it_without_spark(
        self, died: XCom, context: Context, publish_now: Callable[[XCom], None]
    ) -> None:
        """The worker died once more, between the publication and the task's end."""
        publish_now(died)
        report = load(died).execute(context)
        assert (report["rows"], report["attempt"]) == (5, report["published_attempt"])

    def test_a_verified_window_is_counted_again(
        self, died: XCom, context: Context, publish_now: Callable[[XCom], None], in_sparks_place: InSparksPlace
    ) -> None:
        publish_now(died)
        KafkaVerifyWindowOperator(task_id="v", window=died).execute(context)
        with pytest.raises(Exception, match="Spark was started"):
            load(died).execute(context)

    def test_what_was_asked_otherwise_is_loaded_anew(self, died: XCom, context: Context) -> None:
        """The Dag was changed in between: the rows are in another place."""
        with pytest.raises(Exception, match="Spark was started"):
            load(died, application_args=["--output", "file:///elsewhere"]).execute(context)

    def test_another_tasks_result_is_not_its_own(self, died: XCom, context: Context) -> None:
        context["ti"].task_id = "another"
        with pytest.raises(Exception, match="Spark was started"):
            load(died).execute(context)

    def test_what_was_loaded_before_the_window_was_resolved_anew_is_not_its_load(
        self, died: XCom, context: Context, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        newer = revised(ledger, pinned)
        resolved = died | {"revision": newer.manifest.revision, "sha256": newer.sha256}
        with pytest.raises(Exception, match="Spark was started"):
            load(resolved).execute(context)
        assert published(ledger, pinned) == []

    def test_the_whole_is_published_where_a_later_try_was_to_load_what_is_left(
        self, died: XCom, context: Context, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        left = left_of(ledger, pinned)
        report = load(died | {"revision": left.manifest.revision, "sha256": left.sha256}).execute(context)
        assert (report["rows"], published(ledger, pinned)[0][1]) == (5, 1)

    def test_a_revision_that_a_crash_left_without_a_manifest_is_passed_over(
        self, died: XCom, context: Context, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        """Found by the chaos run: a worker died while it created the manifest of the next revision."""
        folder = Path(pinned.uri.removeprefix("file://")).parent
        folder.with_name(f"{folder.name}.r2").mkdir()
        assert load(died).execute(context)["rows"] == 5

    def test_a_result_of_an_application_that_failed_afterwards_is_not_published(
        self, window: XCom, context: Context, in_sparks_place: InSparksPlace, ledger: Ledger
    ) -> None:
        in_sparks_place(COUNT + "\nraise SystemExit(3)")
        with pytest.raises(Exception, match="ended with status 3"):
            load(window).execute(context)
        in_sparks_place(NEVER)
        with pytest.raises(Exception, match="Spark was started"):
            load(window).execute(context)
        assert ledger.window_folders.publication(window["window"]) is None


def died_here(*_: object) -> None:
    raise KeyboardInterrupt


class TestAnotherSubmitter:
    def test_verify_publishes_what_its_driver_has_counted(
        self, window: XCom, pinned: PinnedManifest, count: Count, context: Context, ledger: Ledger
    ) -> None:
        count(pinned)
        report = KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)
        assert (report["verdict"], report["written"]) == ("read = written = log", 5)
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]

    def test_verify_takes_over_what_a_driver_hands_over(
        self, window: XCom, pinned: PinnedManifest, context: Context, ledger: Ledger
    ) -> None:
        """A client of Spark Connect reaches no ledger, and can't ask Kafka where its server reads."""
        handed = run_result(pinned.manifest, tallies(pinned.manifest), application_id=None, source=None)
        told = json.loads(json.dumps(handed.to_json()))
        report = KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert report["verdict"] == "read = written = log"
        _, result = ledger.folder_of(pinned).published_result()
        assert result.source is not None
        assert result.source.cluster_id == pinned.manifest.cluster_id
        again = KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert again["verdict"] == report["verdict"]
        assert [each.found for each in verify(ledger) if not each.holds] == []

    def test_verify_says_what_its_result_has_to_be(self, window: XCom, context: Context) -> None:
        with pytest.raises(AirflowFailException, match=r"result= takes what PinnedWindow\.write") as failed:
            KafkaVerifyWindowOperator(task_id="v", window=window, result={"rows": 5}).execute(context)
        assert fails_with(ConfigurationError, failed)

    def test_verify_takes_over_nothing_of_another_manifest(
        self, window: XCom, pinned: PinnedManifest, context: Context
    ) -> None:
        told = run_result("0" * 64, tallies(pinned.manifest)).to_json()
        with pytest.raises(AirflowFailException, match="is of another manifest") as failed:
            KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert fails_with(LedgerConflictError, failed)

    def test_what_nobody_has_loaded_is_not_published(self, window: XCom, context: Context) -> None:
        with pytest.raises(AirflowFailException, match="never published"):
            KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)


class TestTheCommand:
    def test_it_publishes_what_was_counted_and_shows_it(
        self, window: XCom, pinned: PinnedManifest, count: Count, run: Run
    ) -> None:
        count(pinned)
        code, out, _ = run("ledger", "publish", "loads", window["window"], "-o", "json")
        (row,) = json.loads(out)
        assert code == 0
        assert (row["published"], row["rows"], row["verdict"]) == ("a-1", 5, "read = written = log")

    def test_it_takes_a_result_from_a_file(
        self, window: XCom, pinned: PinnedManifest, tmp_path: Path, run: Run, ledger: Ledger
    ) -> None:
        handed = tmp_path / "result.json"
        result: RunResult = run_result(pinned.manifest, tallies(pinned.manifest), application_id=None, source=None)
        handed.write_text(json.dumps(result.to_json()))
        assert run("ledger", "publish", "loads", window["window"], "--result", str(handed))[0] == 0
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]

    def test_it_says_what_is_missing(self, window: XCom, pinned: PinnedManifest, run: Run) -> None:
        code, _, err = run("ledger", "publish", "loads", window["window"])
        assert code == 1
        assert "no attempt has counted what proves it" in err
        code, _, err = run("ledger", "publish", "loads", window["window"], "--attempt", "a-9")
        assert code == 2
        assert "Attempt a-9 has counted nothing" in err
        code, _, err = run("ledger", "publish", "loads", window["window"], "--result", "/nowhere.json")
        assert code == 2
        assert "can't be read as JSON" in err
