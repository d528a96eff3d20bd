"""Loads, where Kafka needn't be asked: which attempts begin, what is left to publish, and whose rows count."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import CommitConflictError, CountedTwiceError, LedgerConflictError, UnprovenError
from airflow_kafka_offsets.ledger import corrections, load_decisions
from airflow_kafka_offsets.ledger.attempt_files import result_file
from airflow_kafka_offsets.ledger.counted import left_to_publish
from airflow_kafka_offsets.ledger.entries import Attempted, Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.proof.run_result import NO_SINK, Tally
from airflow_kafka_offsets.pipelines import attempts, loads
from tests.integration.ledger.loads import AT_T0, at_hour, begin, pin, publish, resolve, store_result
from tests.integration.ledger.results import result_of
from tests.unit.offsets.builders import HOUR_MS, T0

NO_CLIENT = cast("OffsetsClient", None)
"""Whoever asks it fails."""
TABLE: dict[str, Any] = {"sink": "delta", "apart": False, "output": "lake.t", "files": ()}


def no_kafka() -> AbstractContextManager[OffsetsClient]:
    pytest.fail("Kafka was asked")


def started(ledger: Ledger, name: str, manifest: str) -> Attempted | Published:
    wanted = attempts.Wanted(ledger, name, manifest)
    return loads.returned(attempts.begin_each([wanted], no_kafka, {"run": "r-1"})[wanted])


class TestBegin:
    def test_of_a_published_window_starts_nothing_and_asks_nobody(self, ledger: Ledger) -> None:
        window = publish(ledger, resolve(ledger, 0))
        assert started(ledger, window.name, window.manifest) == window.publication
        assert ledger.window(window.name).attempts == window.attempts

    def test_of_another_window_of_that_name_is_refused(self, local: Ledger) -> None:
        window = resolve(local, 0)
        with pytest.raises(LedgerConflictError, match="was resolved anew"):
            started(local, window.name, "0" * 64)
        with pytest.raises(LedgerConflictError, match="has no window"):
            started(local, window.name.replace("2026", "2027"), window.manifest)

    def test_of_a_window_without_offsets_needs_no_job(self, local: Ledger) -> None:
        """S6."""
        empty = pin(local, at_hour(0, AT_T0), at_hour(1, AT_T0))
        found = started(local, empty.name, empty.manifest)
        assert isinstance(found, Published)
        assert (found.rows, found.outputs[0].sink, found.outputs[0].output) == (0, NO_SINK, None)
        assert started(local, empty.name, empty.manifest) == found

    def test_of_one_without_offsets_needs_a_job_where_another_of_its_name_may_have_left_rows(
        self, local: Ledger
    ) -> None:
        """Whose rows a table has under that name: only a driver can take them away."""
        begin(local, resolve(local, 0))
        local.change(lambda state: corrections.rewind(state, T0 - HOUR_MS))
        empty = pin(local, at_hour(0, AT_T0), at_hour(1, AT_T0))
        assert isinstance(started(local, empty.name, empty.manifest), Attempted)

    def test_of_many_by_one_commit_leaves_out_one_that_is_refused(self, local: Ledger) -> None:
        windows = [resolve(local, hour) for hour in range(3)]
        gone = attempts.Wanted(local, windows[1].name, "0" * 64)
        first, _, last = (attempts.Wanted(local, each.name, each.manifest) for each in windows)
        before = local.state.number
        wishes = {
            each: (local, partial(load_decisions.begin, wish=Attempted(each.name, {}), manifest=each.manifest))
            for each in (first, gone, last)
        }
        assert list(loads.commit_each(wishes)) == [gone]
        assert local.state.number == before + 1
        assert [len(local.window(each.name).attempts) for each in windows] == [1, 0, 1]


class TestLeftToPublish:
    def test_is_a_proved_result_of_a_worker_that_died(self, ledger: Ledger) -> None:
        window = resolve(ledger, 0)
        counted = store_result(ledger, window, result_of(ledger, window, begin(ledger, window)))
        assert left_to_publish(ledger, ledger.window(window.name)) == counted

    def test_is_nothing_of_a_published_window_or_without_an_attempt(self, local: Ledger) -> None:
        assert left_to_publish(local, resolve(local, 0)) is None
        assert left_to_publish(local, publish(local, resolve(local, 1))) is None

    def test_is_nothing_that_is_not_proved(self, local: Ledger) -> None:
        window = resolve(local, 0)
        result = result_of(local, window, begin(local, window))
        store_result(local, window, replace(result, read=Tally(9)))
        assert left_to_publish(local, local.window(window.name)) is None

    def test_is_nothing_of_an_attempt_of_which_airflow_says_that_it_failed(self, local: Ledger) -> None:
        """Its application failed after it had counted: it may not have done all that it was to do."""
        window = resolve(local, 0)
        attempt = begin(local, window)
        store_result(local, window, result_of(local, window, attempt))
        local.attempt(window.name, attempt.number).record_failure(FailureNote("SparkFailedError", "exit 1", 1))
        assert left_to_publish(local, local.window(window.name)) is None

    @pytest.mark.parametrize(("fields", "is_left"), [({}, True), (TABLE, False)])
    def test_of_an_older_attempt_is_left_where_each_has_a_place_of_its_own(
        self, local: Ledger, fields: dict[str, Any], is_left: bool
    ) -> None:
        window = resolve(local, 0)
        store_result(local, window, result_of(local, window, begin(local, window), **fields))
        begin(local, window)
        assert (left_to_publish(local, local.window(window.name)) is not None) == is_left

    def test_is_nothing_in_a_file_that_is_half_written(self, local: Ledger) -> None:
        """Not every store creates files at once."""
        window = resolve(local, 0)
        files = local.attempt(window.name, begin(local, window).number)
        local.files.create(f"{files.folder}/{result_file('0000000b')}", b'{"attempt": 3')
        assert left_to_publish(local, local.window(window.name)) is None


class TestPublish:
    def test_what_is_not_proved_is_refused_before_anybody_is_asked(self, local: Ledger) -> None:
        window = resolve(local, 0)
        result = result_of(local, window, begin(local, window))
        short = store_result(local, window, replace(result, read=Tally(9)))
        with pytest.raises(
            UnprovenError, match=r"is not published: read 9 rows, wrote 10.*stay at file:///out"
        ) as told:
            loads.returned(loads.publish_each(no_kafka, {0: short})[0])
        assert not isinstance(told.value, CountedTwiceError)


class TestTakeOver:
    def test_of_another_result_of_the_same_run_is_refused(self, local: Ledger) -> None:
        window = resolve(local, 0)
        attempt = begin(local, window)
        result = result_of(local, window, attempt)
        window = local.window(window.name)
        loads.take_over(NO_CLIENT, local, window, result)
        with pytest.raises(LedgerConflictError, match="already has a different result"):
            loads.take_over(NO_CLIENT, local, window, replace(result, seconds=2.0))

    def test_of_another_attempt_or_manifest_is_refused(self, local: Ledger) -> None:
        window = resolve(local, 0)
        attempt = begin(local, window)
        result = result_of(local, window, attempt)
        window = local.window(window.name)
        with pytest.raises(CommitConflictError, match="has no attempt 99"):
            loads.take_over(NO_CLIENT, local, window, replace(result, attempt=99))
        with pytest.raises(LedgerConflictError, match="of a run at this window"):
            loads.take_over(NO_CLIENT, local, window, replace(result, manifest_sha256="0" * 64))
