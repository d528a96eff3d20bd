"""Many windows in one task: one commit begins them, one program loads them, and each stands for itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_kafka_offsets.errors import ConfigurationError, WindowsFailedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.attempt_files import failure_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.resolve import KafkaUnpublishedWindowsOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references import WindowRef, WindowRefs
from airflow_kafka_offsets.submission.tries import LoadTry
from tests.integration.airflow.conftest import (
    FOR_EVER,
    NEVER,
    T0_MS,
    Context,
    InSparksPlace,
    Publish,
    Resolve,
    at,
    cleared,
    fails_with,
    recreate,
    use_connection,
)
from tests.integration.airflow.windows.conftest import DeleteBefore, XCom, load
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.ledger.results import RUN, result_of

COUNT = "from tests.integration.airflow.in_sparks_place import count_batch\ncount_batch()\n"
"""In Spark's place: a driver that has read and written each offset of each window once."""


@pytest.fixture
def other(topic: MakeTopic, produce: Produce) -> str:
    """A second topic with ten records."""
    name = topic(config=FOR_EVER)
    produce(name, 0, [(T0_MS + n * 1000, None, b"x") for n in range(10)])
    return name


@pytest.fixture
def windows(ten: str, other: str, resolve: Resolve) -> list[XCom]:
    """Two of one pipeline, and one of another between them, in no order."""
    return [
        resolve(ten, at(4), at(7)),
        resolve(other, at(2), at(6), pipeline="others"),
        resolve(ten, at(2), at(4)),
    ]


def poison(topic: str) -> str:
    """In Spark's place: the same, but the windows of a topic fail."""
    return f"from tests.integration.airflow.in_sparks_place import count_batch\ncount_batch({topic!r})\n"


def ledger_of(window: XCom) -> Ledger:
    return WindowRef.from_json(window).ledger()


def verify(windows: Any, context: Context, **arguments: Any) -> Any:
    return KafkaVerifyWindowOperator(task_id="v", window=windows, **arguments).execute(context)


def retried(context: Context) -> Context:
    context["ti"].try_number += 1
    return context


class TestLoad:
    def test_one_program_loads_windows_of_several_pipelines_by_one_commit_each(
        self, windows: list[XCom], context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(COUNT)
        reports = load(windows).execute(context)
        assert [(each["window"], each["rows"]) for each in reports] == [
            (window["window"], window["offsets"]) for window in windows
        ]
        ledger = ledger_of(windows[0])
        first, last = ledger.state.windows.values()
        assert first.attempts[0].number == last.attempts[0].number, "one commit begins them"
        assert first.publication is not None
        assert last.publication is not None
        assert first.publication.number == last.publication.number, "and one publishes them"
        in_sparks_place(NEVER)
        assert [each["attempt"] for each in load(windows).execute(context)] == [each["attempt"] for each in reports]

    def test_a_poison_topic_fails_alone_and_a_retry_loads_what_is_left(
        self, windows: list[XCom], other: str, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(poison(other))
        with pytest.raises(AirflowFailException, match="1 of 3 windows failed; the other 2 did not") as failed:
            load(windows).execute(context)
        assert fails_with(WindowsFailedError, failed)
        told = str(failed.value)
        assert f"{windows[1]['window']}  others    ExtremeTimestampError  " in told
        assert "a record of the year 300,000" in told
        assert windows[0]["window"] not in told
        assert all(window.loaded is not None for window in ledger_of(windows[0]).state.windows.values())
        in_sparks_place("from tests.integration.airflow.in_sparks_place import count\ncount()\n")
        reports = load(windows).execute(retried(context))
        assert [each["seconds"] is None for each in reports] == [True, False, True], "it alone is loaded now"

    def test_one_that_kafka_no_longer_has_fails_alone_before_spark_starts(
        self,
        windows: list[XCom],
        other: str,
        delete_before: DeleteBefore,
        context: Context,
        in_sparks_place: InSparksPlace,
    ) -> None:
        delete_before(other, 4)
        in_sparks_place(COUNT)
        with pytest.raises(AirflowFailException, match="DataLossError"):
            load(windows).execute(context)
        assert ledger_of(windows[1]).window(windows[1]["window"]).attempts == ()
        assert ledger_of(windows[0]).window(windows[0]["window"]).loaded is not None

    def test_one_whose_topic_was_made_anew_while_it_was_read_is_not_published(
        self,
        windows: list[XCom],
        other: str,
        admin: Any,
        context: Context,
        in_sparks_place: InSparksPlace,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        in_sparks_place(COUNT)
        end = LoadTry.end

        def after(*arguments: Any) -> Any:
            recreate(admin, other)
            return end(*arguments)

        monkeypatch.setattr(LoadTry, "end", after)
        with pytest.raises(AirflowFailException, match=r"TopicChangedError.*re-created"):
            load(windows).execute(context)
        assert ledger_of(windows[1]).window(windows[1]["window"]).loaded is None
        assert ledger_of(windows[0]).window(windows[0]["window"]).loaded is not None

    def test_what_a_driver_counted_before_it_died_is_published_and_the_rest_is_retried(
        self, windows: list[XCom], context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(
            "from tests.integration.airflow.in_sparks_place import batch, _count\n"
            "_count(*batch()[0])\nprint('Exception in thread \"main\" java.lang.OutOfMemoryError')\nraise SystemExit(3)"
        )
        with pytest.raises(WindowsFailedError, match="2 of 3 windows failed; the other 1 did not") as failed:
            load(windows).execute(context)
        assert failed.value.retriable
        assert str(failed.value).count("java.lang.OutOfMemoryError") == 1, "a reason is said once"
        assert str(failed.value).count("the same") == 1
        in_sparks_place(COUNT)
        assert len(load(windows).execute(retried(context))) == 3
        first = ledger_of(windows[2]).window(windows[2]["window"])
        assert len(first.attempts) == 1, "the first one in time was published, and isn't loaded again"

    def test_windows_without_offsets_need_no_spark(
        self, ten: str, resolve: Resolve, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        """S6."""
        in_sparks_place(NEVER)
        empty = [resolve(ten, at(start), at(start + 5)) for start in (20, 25, 30)]
        reports = load(empty).execute(context)
        assert [each["rows"] for each in reports] == [0, 0, 0]
        assert {window.publication.number for window in ledger_of(empty[0]).state.published if window.publication} == {
            ledger_of(empty[0]).state.number
        }
        assert load([]).execute(context) == []

    def test_lists_may_lie_in_lists_and_each_window_counts_once(
        self, windows: list[XCom], context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(COUNT)
        event = {"windows": windows[:2], "start": "", "end": ""}
        reports = load([event, [windows[2]], windows[0]]).execute(context)
        assert [each["window"] for each in reports] == [each["window"] for each in windows]

    def test_one_that_can_not_be_loaded_again_keeps_its_rows_and_fails_alone(
        self,
        windows: list[XCom],
        other: str,
        delete_before: DeleteBefore,
        context: Context,
        in_sparks_place: InSparksPlace,
    ) -> None:
        in_sparks_place(COUNT)
        before = [each["attempt"] for each in load(windows).execute(context)]
        delete_before(other, 4)
        cleared(context)
        with pytest.raises(AirflowFailException, match="1 of 3 windows failed; the other 2 did not") as failed:
            load(windows, reload=True).execute(context)
        assert "DataLossError" in str(failed.value)
        after = [ledger_of(each).window(each["window"]).loaded for each in windows]
        again = [found is not None and found.attempt > number for found, number in zip(after, before, strict=True)]
        assert again == [True, False, True]
        assert after[1] is not None, "readers have it as it was"

    def test_one_whose_ledger_is_damaged_holds_up_no_other_pipeline(
        self, windows: list[XCom], ledger_root: Path, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        max((ledger_root / "others" / "log").rglob("*.json")).write_text("{}")
        in_sparks_place(COUNT)
        for task in (load(windows, reload=True), KafkaVerifyWindowOperator(task_id="v", window=windows)):
            with pytest.raises(AirflowFailException, match="1 of 3 windows failed; the other 2 did not") as failed:
                task.execute(context)
            assert f"{windows[1]['window']}  others    LedgerCorruptError" in str(failed.value)
        published = ledger_of(windows[0]).state.published
        assert [each.publication and each.publication.verdict is not None for each in published] == [True, True]

    def test_what_was_counted_when_the_task_was_ended_is_published_by_its_next_try(
        self, windows: list[XCom], context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        """As by a timeout, or someone who ends it: then nothing else runs any more."""
        begun = LoadTry.of(context, WindowRefs.from_json(windows), "fail")
        _, batch = begun.begin()
        (first, attempt), *_ = batch.attempts.items()
        result = result_of(first.ledger, first.window, attempt)
        first.ledger.attempt(first.name, attempt.number).record_result(result)
        in_sparks_place(COUNT)
        task = load(windows)
        task._running = begun, batch
        task.on_kill()
        notes = [files.failure() for files in batch.files()]
        assert [note and note.message[:19] for note in notes] == [None, *["The task was killed"] * 2]
        reports = load(windows).execute(retried(context))
        numbers = {each["window"]: each["attempt"] for each in reports}
        kept = [each.name for each, made in batch.attempts.items() if numbers[each.name] == made.number]
        assert kept == [first.name], "it isn't loaded again"

    def test_several_connections_are_refused_before_anything_begins(
        self, windows: list[XCom], context: Context, monkeypatch: pytest.MonkeyPatch, broker: Any
    ) -> None:
        use_connection(monkeypatch, "second", {"bootstrap.servers": broker.bootstrap_servers})
        with pytest.raises(
            AirflowFailException, match=r"several Kafka connections \(kafka_default, second\)"
        ) as failed:
            load([windows[0], windows[1] | {"kafka_conn_id": "second"}]).execute(context)
        assert fails_with(ConfigurationError, failed)
        assert ledger_of(windows[0]).window(windows[0]["window"]).attempts == ()


class TestVerifyAndCommit:
    def test_take_the_same_list(
        self, windows: list[XCom], other: str, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(COUNT)
        load(windows).execute(context)
        before = ledger_of(windows[0]).state.number
        reports = verify(windows, context, on_hole="warn")
        assert [(each["window"], each["written"]) for each in reports] == [
            (window["window"], window["offsets"]) for window in windows
        ]
        ledger = ledger_of(windows[0])
        assert all(window.publication and window.publication.verdict for window in ledger.state.published)
        assert ledger.state.number == before + 1, "one commit has both verdicts"
        done = KafkaCommitOffsetsOperator(task_id="c", window=windows, group=f"g-{other}", on_hole="warn").execute(
            context
        )
        assert done == {"group": f"g-{other}", "committed": 2, "kept": 0}

    def test_one_that_is_not_loaded_fails_alone(self, windows: list[XCom], publish: Publish, context: Context) -> None:
        publish(windows[0])
        publish(windows[1])
        with pytest.raises(AirflowFailException, match=r"1 of 3 windows failed.*\n.*\n.*was never published"):
            verify(windows, context, on_hole="warn")
        found = ledger_of(windows[0]).window(windows[0]["window"]).publication
        assert found is not None
        assert found.verdict is not None
        with pytest.raises(AirflowFailException, match="was never published"):
            KafkaCommitOffsetsOperator(task_id="c", window=windows, group="g").execute(context)

    def test_of_no_windows_there_is_nothing_to_do(self, context: Context) -> None:
        assert verify([], context) == []
        nothing = {"group": "g", "committed": 0, "kept": 0}
        assert KafkaCommitOffsetsOperator(task_id="c", window=[], group="g").execute(context) == nothing
        with pytest.raises(AirflowSkipException):
            KafkaPrepareLoadOperator(task_id="p", window=[], application_args=["--output", "o"]).execute(context)


class TestPrepare:
    def test_what_is_prepared_is_verified_whoever_submits_it(
        self, windows: list[XCom], other: str, delete_before: DeleteBefore, context: Context, tmp_path: Path
    ) -> None:
        delete_before(other, 4)
        task = KafkaPrepareLoadOperator(
            task_id="p", window=windows, application_args=["--output", (tmp_path / "out").as_uri()]
        )
        prepared = json.loads(json.dumps(task.execute(context)))
        assert prepared["window"] == [each["window"] for each in windows]
        assert prepared["needs_driver"]
        assert [number is None for number in prepared["attempt"]] == [False, True, False]
        assert not any("manifest" in name for name in prepared["conf"]), "a file names them"
        with pytest.raises(AirflowFailException, match="couldn't be loaded: the log of the task that prepared"):
            verify(windows, context, load=prepared)

    def test_of_what_is_prepared_each_counts_as_its_driver_says_and_waits_for_no_other(
        self, windows: list[XCom], context: Context
    ) -> None:
        """One is counted; one was taken back, as its application failed at it after that; one is still being loaded."""
        task = KafkaPrepareLoadOperator(task_id="p", window=windows, application_args=["--output", "file:///t"])
        prepared = json.loads(json.dumps(task.execute(context)))
        ledgers = [ledger_of(each) for each in windows]
        pinned = [ledger.window(each["window"]) for ledger, each in zip(ledgers, windows, strict=True)]
        for number in range(2):
            ledger, window = ledgers[number], pinned[number]
            files = ledger.attempt(window.name, window.attempts[0].number)
            files.record_result(result_of(ledger, window, window.attempts[0]))
        note = FailureNote("SparkFailedError", "the row in the catalog is missing", is_after_proof=True)
        ledgers[1].files.replace(f"{files.folder}/{failure_file(RUN)}", note.to_bytes())

        with pytest.raises(TaskDeferred) as deferred:
            verify(windows, context, load=prepared, deferrable=True)
        assert deferred.value.trigger.serialize()[1]["window"] == windows[2], "short, however many there are"
        assert [ledger_of(each).window(each["window"]).loaded is not None for each in windows] == [True, False, False]
        with pytest.raises(WindowsFailedError, match=r"2 of 3 windows failed[\s\S]*the row in the catalog is missing"):
            verify(windows, context, load=prepared, on_hole="warn")


class TestUnpublished:
    def test_windows_that_no_load_has_published_are_found_in_order_of_time(
        self, ten: str, windows: list[XCom], publish: Publish, context: Context
    ) -> None:
        pipeline = KafkaPipeline("loads", ten)
        find = KafkaUnpublishedWindowsOperator(task_id="u", pipeline=pipeline)
        assert find.execute(context) == [windows[2], windows[0]]
        publish(windows[2])
        assert find.execute(context) == [windows[0]]
        until = KafkaUnpublishedWindowsOperator(task_id="u", pipeline=pipeline, end=at(6))
        assert until.execute(context) == []

    def test_those_of_several_pipelines_are_loaded_verified_and_committed_as_one_list(
        self, ten: str, other: str, windows: list[XCom], context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        def unpublished() -> list[list[XCom]]:
            pipelines = KafkaPipeline("loads", ten), KafkaPipeline("others", other)
            return [KafkaUnpublishedWindowsOperator(task_id="u", pipeline=each).execute(context) for each in pipelines]

        found = unpublished()
        in_sparks_place(COUNT)
        loaded = load(found).execute(context)
        assert [each["window"] for each in loaded] == [windows[place]["window"] for place in (2, 0, 1)]
        assert unpublished() == [[], []]
        assert len(verify(found, context, on_hole="warn")) == 3
        commit = KafkaCommitOffsetsOperator(task_id="c", window=found, group=f"g-{ten}", on_hole="warn")
        assert commit.execute(context) == {"group": f"g-{ten}", "committed": 2, "kept": 0}
        assert load(unpublished()).execute(context) == []
