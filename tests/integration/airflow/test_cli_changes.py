"""The commands that change a ledger: what they print, what they refuse, and that a dry run changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.ledger.entries import Restarted, Snapshotted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import parse_instant
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from tests.integration.airflow.conftest import Publish, Resolve, Run, at, recreate
from tests.integration.conftest import Produce
from tests.integration.ledger.loads import begin, store_result
from tests.integration.ledger.results import result_of

Rows = list[dict[str, Any]]
HOUR = ("--start", "2026-11-20T07:00Z", "--end", "2026-11-20T08:00Z")


def rows_of(out: str) -> Rows:
    found: Rows = json.loads(out)
    return found


def seen_before(ledger: Ledger, offset: int | None = None, cluster_id: str | None = None) -> None:
    """The newest snapshot is of a log that was longer, or of another cluster."""
    newest = ledger.read().newest_snapshot
    assert newest is not None
    stored, at_ms = ledger.contents.snapshot(newest.offsets), newest.at_ms + 1
    boundaries = {
        key: each if offset is None else replace(each, offset=offset, high_watermark=offset)
        for key, each in stored.boundaries.items()
    }
    before = replace(
        stored,
        as_of=AsOf(AsOfKind.LATEST),
        resolved_at_ms=at_ms,
        cluster_id=cluster_id or stored.cluster_id,
        boundaries=boundaries,
    )
    entry = Snapshotted(at_ms, ledger.contents.add_snapshot(before))
    ledger.change(lambda _: (entry,))


@pytest.fixture
def windows(ten: str, resolve: Resolve, publish: Publish) -> list[str]:
    """Three windows of three records each; the first two are published."""
    made = [resolve(ten, at(start), at(start + 3)) for start in (0, 3, 6)]
    for each in made[:2]:
        publish(each)
    return [each["window"] for each in made]


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (("reload",), [(0, "to be loaded again")]),
        (("void", "--force"), [(0, "no longer counts")]),
    ],
    ids=["reload", "void"],
)
def test_a_dry_run_shows_what_the_command_changes_and_changes_nothing(
    run: Run, ledger: Ledger, windows: list[str], words: tuple[str, ...], changed: list[tuple[int, str]]
) -> None:
    before = ledger.read()
    arguments = ("ledger", words[0], "loads", windows[0], *words[1:])
    code, dry, err = run(*arguments, "--dry-run", "-o", "json")
    assert (code, ledger.read().number) == (0, before.number)
    assert "Nothing was changed: leave out --dry-run" in err
    assert [(row["name"], row["change"], row["rows"]) for row in rows_of(dry)] == [
        (windows[place], change, 3) for place, change in changed
    ]
    code, done, err = run(*arguments, "-o", "json")
    assert (code, done, ledger.read().number) == (0, dry, before.number + 1)
    assert f"Commit {before.number + 1}" in err


class TestReload:
    def test_what_kafka_no_longer_has_is_not_loaded_again_unless_the_rest_is_enough(
        self, run: Run, ledger: Ledger, admin: KafkaAdminClient, ten: str, windows: list[str]
    ) -> None:
        admin.delete_records({TopicPartition(ten, 0): 2})
        before, reload = ledger.read().number, ("ledger", "reload", "loads", windows[0])
        for more in ((), ("--dry-run",)):
            code, _, err = run(*reload, *more)
            assert (code, "2 of 3 offsets" in err, ledger.read().number) == (1, True, before)
        assert run(*reload, "--on-data-loss", "load_rest")[0] == 0
        assert ledger.read().windows[windows[0]].loaded is None

    def test_it_can_be_taken_back(self, run: Run, ledger: Ledger, windows: list[str]) -> None:
        reload = ("ledger", "reload", "loads", windows[0])
        run(*reload)
        (row, *_) = rows_of(run("ledger", "list", "loads", "-o", "json")[1])
        assert (row["state"], row["remark"]) == ("pinned", "to be loaded again; its published rows count until then")
        code, out, _ = run(*reload, "--take-back", "-o", "json")
        assert (code, [(each["name"], each["change"]) for each in rows_of(out)]) == (0, [(windows[0], "loaded")])
        assert ledger.read().windows[windows[0]].loaded is not None
        assert run("ledger", "verify", "loads")[0] == 0

    def test_it_names_the_command_that_clears_the_run(self, run: Run, windows: list[str]) -> None:
        _, _, err = run("ledger", "reload", "loads", windows[0])
        assert f"To load {windows[0]} again: airflow dags clear loads --run-id r-1 --yes" in err

    def test_what_was_never_loaded_needs_no_reload(self, run: Run, ledger: Ledger, windows: list[str]) -> None:
        before = ledger.read().number
        code, _, err = run("ledger", "reload", "loads", windows[2])
        assert (code, err, ledger.read().number) == (0, "kafka-offsets: Nothing had to be changed.\n", before)

    def test_a_restored_ledger_outnumbers_an_attempt_that_a_table_has(
        self, run: Run, ledger: Ledger, windows: list[str]
    ) -> None:
        """It was begun by the ledger that was lost, after the copy was made."""
        code, _, err = run("ledger", "reload", "loads", windows[0], "--over", "95-1f2e3d4c")
        assert code == 0
        assert "attempt 95" in err
        state = ledger.read()
        assert state.number == 95
        assert state.windows[windows[0]].loaded is None
        assert ledger.attempt(windows[0], 95).runs() == {"1f2e3d4c": {"note"}}
        assert begin(ledger, state.windows[windows[0]]).number > 95

    @pytest.mark.parametrize("over", ["95", "95-xyz", "1f2e3d4c", "999999999-1f2e3d4c"])
    def test_what_is_no_attempt_of_a_copy_is_refused(
        self, run: Run, ledger: Ledger, windows: list[str], over: str
    ) -> None:
        code, _, err = run("ledger", "reload", "loads", windows[2], "--over", over)
        assert (code, "attempt" in err.lower()) == (2, True)


class TestVoid:
    def test_a_published_window_is_refused_with_its_rows_named(
        self, run: Run, ledger: Ledger, windows: list[str]
    ) -> None:
        before = ledger.read().number
        for more in ((), ("--dry-run",)):
            code, _, err = run("ledger", "void", "loads", windows[0], *more)
            assert (code, ledger.read().number) == (1, before)
            assert f"3 rows of {windows[0]} in file:/out" in err
            assert "--force" in err

    def test_its_time_is_free_and_gets_the_same_offsets(
        self, run: Run, ledger: Ledger, ten: str, resolve: Resolve, windows: list[str]
    ) -> None:
        before = ledger.window(windows[2])
        assert run("ledger", "void", "loads", windows[2])[0] == 0
        assert windows[2] not in ledger.read().windows
        assert resolve(ten, at(6), at(9))["sha256"] == before.manifest

    def test_a_window_that_is_not_there_is_wrong_usage(self, run: Run, windows: list[str]) -> None:
        code, _, err = run("ledger", "void", "loads", windows[0].replace("2026", "2025"))
        assert code == 2
        assert "kafka-offsets ledger list loads shows the windows that it has" in err


class TestRewind:
    def test_everything_after_an_instant_is_taken_away_and_shown_before(
        self, run: Run, ledger: Ledger, windows: list[str]
    ) -> None:
        words = ("ledger", "rewind", "loads", "--to", at(6), "-o", "json")
        _, dry, _ = run(*words, "--dry-run")
        assert set(windows) <= set(ledger.read().windows)
        code, done, _ = run(*words)
        assert (code, done) == (0, dry)
        assert [(row["what"], row["name"]) for row in rows_of(done)] == [
            ("window", windows[2]),
            ("snapshot", "2026-11-20T06:00:09.000Z"),
        ]
        assert list(ledger.read().windows) == windows[:2]
        assert max(ledger.state.snapshots) == parse_instant(at(6))

    def test_published_windows_need_force(self, run: Run, ledger: Ledger, windows: list[str]) -> None:
        words = ("ledger", "rewind", "loads", "--to", at(3))
        code, _, err = run(*words)
        assert (code, f"3 rows of {windows[1]}" in err) == (1, True)
        code, _, err = run(*words, "--force")
        assert (code, f"delete them yourself: 3 rows of {windows[1]} in file:/out." in err) == (0, True)
        assert list(ledger.read().windows) == windows[:1]


class TestRestart:
    def test_without_a_change_in_kafka_it_is_refused(self, run: Run, ledger: Ledger, windows: list[str]) -> None:
        before = ledger.read().number
        code, out, err = run("ledger", "restart", "loads")
        assert (code, out, ledger.read().number) == (1, "", before)
        assert "Kafka shows no change" in err
        assert err.count("\n") == 1

    def test_a_re_created_topic_begins_anew_and_what_was_left_unloaded_is_told(
        self,
        run: Run,
        ledger: Ledger,
        ten: str,
        resolve: Resolve,
        produce: Produce,
        admin: KafkaAdminClient,
        windows: list[str],
    ) -> None:
        """S16, E24: what the window has that isn't published, and the last record, which no window has."""
        recreate(admin, ten)
        code, dry, err = run("ledger", "restart", "loads", "--dry-run", "-o", "json")
        assert (code, ledger.read().restarts) == (0, ())
        assert "Nothing was changed" in err
        code, done, err = run("ledger", "restart", "loads", "-o", "json")
        assert (code, done) == (0, dry)
        assert f"topic {ten} was re-created" in err
        assert "at least 4 offsets of the old logs" in err
        assert f"void what can't be loaded as it is any more: {windows[2]}" in err
        assert [(row["topic"], row["start_offset"], row["offsets"]) for row in rows_of(done)] == [(ten, 6, 4)]
        produce(ten, 0, [(parse_instant(at(10)), None, b"new")] * 4)
        assert resolve(ten, at(9), at(20))["offsets"] == 4
        assert run("ledger", "restart", "loads")[0] == 1, "it is as the ledger knows it"
        assert run("ledger", "void", "loads", windows[2])[0] == 0
        (told,) = [row for row in rows_of(run("ledger", "list", "loads", "-o", "json")[1]) if row["state"] == "restart"]
        assert (told["lost"], "at least 4 offsets of the old logs" in told["remark"]) == (4, True)
        listed = rows_of(run("ledger", "list", "loads", "-o", "json")[1])
        assert [row["state"] for row in listed] == ["published", "published", "hole", "restart", "pinned"]

    def test_a_truncated_log_goes_on_where_it_was_truncated(
        self, run: Run, ledger: Ledger, ten: str, resolve: Resolve, produce: Produce, windows: list[str]
    ) -> None:
        """S15: the newest snapshot has seen twelve records, and the log has ten."""
        seen_before(ledger, offset=12)
        code, out, err = run("ledger", "restart", "loads", "-o", "json")
        assert code == 0, err
        assert f"{ten}-0 was truncated at 10, below 12" in err
        assert [(row["start_offset"], row["end_offset"]) for row in rows_of(out)] == [(10, 12)]
        produce(ten, 0, [(parse_instant(at(30)), None, b"new")] * 4)
        found = resolve(ten, at(9), at(40))
        assert found["offsets"] == 10 - 9 + 4, "the last record of before, and the new ones"

    def test_another_cluster_has_taken_the_place_of_the_old_one(
        self, run: Run, ledger: Ledger, ten: str, resolve: Resolve, windows: list[str]
    ) -> None:
        newest = ledger.read().newest_snapshot
        assert newest is not None
        moved = Restarted(newest.at_ms + 1, (ten,), "it was moved", "gone")
        ledger.change(lambda _: (moved,))
        seen_before(ledger, cluster_id="gone")
        code, _, err = run("ledger", "resolve", "loads", "--topics", ten, *HOUR)
        assert (code, "kafka-offsets ledger restart loads" in err) == (1, True)
        code, _, err = run("ledger", "restart", "loads")
        assert (code, "the cluster was gone, and is " in err) == (0, True)
        assert f"{ten} goes on where the windows on that cluster ended" in err
        assert resolve(ten, at(9), at(20))["offsets"] == 1, "what was loaded there before isn't loaded again"

    def test_one_that_nobody_wants_is_taken_away_by_a_rewind(
        self, run: Run, ledger: Ledger, admin: KafkaAdminClient, ten: str, windows: list[str]
    ) -> None:
        recreate(admin, ten)
        assert run("ledger", "restart", "loads")[0] == 0
        code, _, err = run("ledger", "restart", "loads")
        assert (code, "restarted already" in err, "ledger rewind" in err) == (1, True, True)
        listed = rows_of(run("ledger", "list", "loads", "-o", "json")[1])
        (at_,) = (row["start"] for row in listed if row["state"] == "restart")
        code, out, _ = run("ledger", "rewind", "loads", "--to", at_, "-o", "json")
        assert (code, [row["what"] for row in rows_of(out)]) == (0, ["restart"])
        assert (ledger.read().restarts, list(ledger.state.windows)) == ((), windows)

    def test_a_topic_that_is_gone_cannot_begin_anew(
        self, run: Run, admin: KafkaAdminClient, ten: str, windows: list[str]
    ) -> None:
        admin.delete_topics([ten])
        code, _, err = run("ledger", "restart", "loads")
        assert (code, "Create it first" in err) == (1, True)


class TestBegin:
    def test_it_gives_a_number_and_what_a_driver_needs(self, run: Run, ledger: Ledger, windows: list[str]) -> None:
        code, out, err = run("ledger", "begin", "loads", windows[2], "-o", "json")
        (begun,) = rows_of(out)
        window = ledger.window(windows[2])
        assert code == 0
        assert window.newest_attempt is not None
        assert (begun["attempt"], begun["lost"], begun["published"]) == (window.newest_attempt.number, 0, None)
        conf = begun["conf"]
        assert conf["spark.kafkaOffsets.attempt"] == str(begun["attempt"])
        assert conf["spark.kafkaOffsets.sha256"] == window.manifest
        assert "kafka-offsets ledger publish loads" in err

    def test_a_published_window_needs_no_driver(self, run: Run, ledger: Ledger, windows: list[str]) -> None:
        before = ledger.read().number
        code, out, err = run("ledger", "begin", "loads", windows[0], "-o", "json")
        (begun,) = rows_of(out)
        assert (code, begun["attempt"], begun["conf"], ledger.read().number) == (0, None, {}, before)
        assert "kafka-offsets ledger reload loads" in err

    def test_deleted_records_are_a_loss_only_where_the_rest_is_wanted(
        self, run: Run, ledger: Ledger, admin: KafkaAdminClient, ten: str, windows: list[str]
    ) -> None:
        admin.delete_records({TopicPartition(ten, 0): 7})
        code, _, err = run("ledger", "begin", "loads", windows[2])
        assert (code, "load_rest" in err) == (1, True)
        code, out, _ = run("ledger", "begin", "loads", windows[2], "--on-data-loss", "load_rest", "-o", "json")
        assert (code, rows_of(out)[0]["lost"]) == (0, 1)


class TestPublish:
    def test_without_a_counted_attempt_it_says_so(self, run: Run, windows: list[str]) -> None:
        code, _, err = run("ledger", "publish", "loads", windows[2])
        assert (code, "no attempt has counted it" in err) == (1, True)

    def test_one_whose_application_failed_after_it_had_counted_is_to_be_loaded_again(
        self, run: Run, ledger: Ledger, windows: list[str]
    ) -> None:
        window = ledger.window(windows[2])
        attempt = begin(ledger, window)
        store_result(ledger, window, result_of(ledger, window, attempt))
        ledger.attempt(window.name, attempt.number).record_failure(FailureNote("SparkFailedError", "exit 3", 1))
        code, _, err = run("ledger", "publish", "loads", windows[2])
        assert (code, f"have counted ({attempt.number}) is proved and may be published" in err) == (1, True)
        assert run("ledger", "verify", "loads")[0] == 1

    def test_a_published_window_is_shown(self, run: Run, ledger: Ledger, windows: list[str]) -> None:
        code, out, _ = run("ledger", "publish", "loads", windows[0], "-o", "json")
        (found,) = rows_of(out)
        assert (code, found["rows"], found["output"]) == (0, 3, "file:/out")

    def test_a_result_that_is_none_is_wrong_usage(self, run: Run, windows: list[str], tmp_path: Any) -> None:
        (tmp_path / "result.json").write_text("{}")
        code, _, err = run("ledger", "publish", "loads", windows[2], "--result", str(tmp_path / "result.json"))
        assert (code, "takes what PinnedWindow.write" in err) == (2, True)
