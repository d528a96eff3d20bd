"""The status of a window as people see it."""

from __future__ import annotations

from dataclasses import replace

from airflow_kafka_offsets.ledger.attempt_files import failure_file
from airflow_kafka_offsets.ledger.counted import WindowStatus, left_to_publish, running_ms, status, statuses
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from tests.integration.ledger.loads import (
    begin,
    load,
    publish,
    publish_asked,
    refuse,
    reload,
    resolve,
    store_result,
    verify,
    windows_of,
)
from tests.integration.ledger.results import result_of
from tests.patience import PATIENCE_S

NOTE = FailureNote("SparkFailedError", "it broke", 1)


def now(ledger: Ledger, window: Window) -> WindowStatus:
    return status(ledger, ledger.window(window.name))


class TestStatus:
    def test_goes_from_pinned_to_verified(self, ledger: Ledger) -> None:
        window = resolve(ledger, 0)
        assert now(ledger, window) is WindowStatus.PINNED
        attempt = begin(ledger, window)
        assert now(ledger, window) is WindowStatus.LOADING
        counted = store_result(ledger, window, result_of(ledger, window, attempt))
        assert now(ledger, window) is WindowStatus.PROVED
        publish_asked(counted)
        assert now(ledger, window) is WindowStatus.PUBLISHED
        verify(ledger, ledger.window(window.name))
        assert now(ledger, window) is WindowStatus.VERIFIED

    def test_is_failed_when_the_driver_or_airflow_says_so(self, local: Ledger) -> None:
        for hour, by_driver in enumerate((True, False)):
            window = resolve(local, hour)
            files = local.attempt(window.name, begin(local, window).number)
            if by_driver:
                local.files.create(f"{files.folder}/{failure_file('0000000a')}", NOTE.to_bytes())
            else:
                files.record_failure(NOTE)
            assert now(local, window) is WindowStatus.FAILED
            assert files.failure() == NOTE

    def test_is_failed_when_what_was_counted_is_not_proved(self, local: Ledger) -> None:
        window = resolve(local, 0)
        result = result_of(local, window, begin(local, window))
        store_result(local, window, replace(result, read=replace(result.read, count=9)))
        assert now(local, window) is WindowStatus.FAILED

    def test_is_proved_as_long_as_there_is_something_to_publish_and_no_longer(self, local: Ledger) -> None:
        """Whose application failed after it had counted may not have done all that it was to do."""
        window = resolve(local, 0)
        first, ended = (begin(local, window) for _ in range(2))
        store_result(local, window, result_of(local, window, ended))
        local.attempt(window.name, ended.number).record_failure(NOTE)
        assert now(local, window) is WindowStatus.FAILED
        assert left_to_publish(local, local.window(window.name)) is None
        store_result(local, window, result_of(local, window, first))
        assert now(local, window) is WindowStatus.PROVED
        assert left_to_publish(local, local.window(window.name)) is not None

    def test_is_failed_where_a_load_was_refused_before_it_began_unless_another_runs(self, local: Ledger) -> None:
        window = resolve(local, 0)
        refuse(local, window, "DataLossError", "gone")
        assert now(local, window) is WindowStatus.FAILED
        attempt = begin(local, window)
        assert now(local, window) is WindowStatus.LOADING
        refuse(local, window, "DataLossError", "gone")
        assert now(local, window) is WindowStatus.LOADING
        publish_asked(store_result(local, window, result_of(local, window, attempt)))
        assert now(local, window) is WindowStatus.PUBLISHED

    def test_is_that_of_the_newest_attempt(self, local: Ledger) -> None:
        window = resolve(local, 0)
        local.attempt(window.name, begin(local, window).number).record_failure(NOTE)
        begin(local, window)
        assert now(local, window) is WindowStatus.LOADING

    def test_is_that_of_a_new_load_once_the_window_is_to_be_loaded_again(self, local: Ledger) -> None:
        window = load(local, 0)
        reload(local, window)
        assert now(local, window) is WindowStatus.PINNED
        assert local.window(window.name).publication is not None, "readers keep the rows"
        publish(local, window)
        assert now(local, window) is WindowStatus.PUBLISHED

    def test_of_a_loading_window_says_for_how_long_by_the_clock_of_who_began(self, local: Ledger) -> None:
        window = resolve(local, 0)
        assert running_ms(window) is None
        begin(local, window, begun_ms=now_ms() - 90_000)
        assert 90_000 <= (running_ms(local.window(window.name)) or 0) < 90_000 + PATIENCE_S * 1000

    def test_of_many_is_told_by_window(self, local: Ledger) -> None:
        for hour in range(3):
            load(local, hour)
        resolve(local, 3)
        begin(local, resolve(local, 4))
        assert list(statuses(local, windows_of(local)).values()) == [*["verified"] * 3, "pinned", "loading"]
