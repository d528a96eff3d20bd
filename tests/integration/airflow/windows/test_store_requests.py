"""What a task asks its ledger's store for: each request to S3 takes some tens of milliseconds.

No number grows with the number of windows. The ledger's log is listed once, or twice by who knows no commit of it; its
newest commit is read, and the checkpoint that it rests on. s3fs lists the folder above as well where one is empty.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references import WindowRef
from tests.integration.airflow.conftest import NEVER, T0_MS, Context, InSparksPlace, Resolve, Run, at
from tests.integration.airflow.windows.conftest import Increment, XCom, load
from tests.integration.airflow.windows.counted import counted_in
from tests.integration.counting_s3 import Count, count, counting_server, root

HOUR_MS = 3_600_000
__all__ = ["count", "counting_server", "root"]  # fixtures, that pytest finds here


@pytest.fixture(autouse=True)
def setting(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting names that root."""
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", root)


@pytest.fixture
def ledger(root: str) -> Ledger:
    return Ledger(ObjectStoragePath(root), "loads")


@pytest.fixture
def hours(ten: str, resolve: Resolve, ledger: Ledger) -> list[XCom]:
    """Three windows in a row, counted by their drivers and not published."""
    windows = [resolve(ten, at(start), at(start + 2)) for start in (2, 4, 6)]
    for window in windows:
        counted_in(ledger, ledger.read().windows[window["window"]])
    return windows


def verified(window: XCom, context: Context) -> XCom:
    return KafkaVerifyWindowOperator(task_id="v", window=window, on_hole="warn").execute(context)


def test_a_window_is_resolved(count: Count, ten: str, resolve: Resolve) -> None:
    first = count(lambda: resolve(ten, at(2), at(4)))
    assert len(first) <= 20, "a new ledger's store is tried out"
    next_one = count(lambda: resolve(ten, at(4), at(6)))
    assert len(next_one) <= 8, next_one
    again = count(lambda: resolve(ten, at(4), at(6)))
    assert len(again) <= 5, again


def test_an_increment_is_resolved(count: Count, ten: str, increment: Increment) -> None:
    increment(ten, "run-1")
    next_one = count(lambda: increment(ten, "run-2"))
    assert len(next_one) <= 8, next_one


def test_a_load_is_prepared(count: Count, ten: str, resolve: Resolve, context: Context) -> None:
    window = resolve(ten, at(2), at(4))
    prepare = KafkaPrepareLoadOperator(task_id="p", window=window, application_args=["--output", "s3://lake/t"])
    asked = count(lambda: prepare.execute(context))
    assert len(asked) <= 10, asked


def test_a_load_has_nothing_to_do_or_only_to_publish(
    count: Count, hours: list[XCom], context: Context, in_sparks_place: InSparksPlace
) -> None:
    in_sparks_place(NEVER)
    asked = count(lambda: load(hours[0]).execute(context))
    assert len(asked) <= 10, asked
    again = count(lambda: load(hours[0]).execute(context))
    assert len(again) <= 10, again


def test_a_window_is_published_and_verified_between_two_others(
    count: Count, hours: list[XCom], context: Context
) -> None:
    first, middle, last = hours
    for each in (first, last):
        verified(each, context)
    asked = count(lambda: verified(middle, context))
    assert len(asked) <= 8 + 6, asked
    again = count(lambda: verified(middle, context))
    assert len(again) <= 6, again


def test_a_window_that_is_published_is_verified(
    count: Count, hours: list[XCom], context: Context, in_sparks_place: InSparksPlace
) -> None:
    in_sparks_place(NEVER)
    load(hours[0]).execute(context)
    asked = count(lambda: verified(hours[0], context))
    assert len(asked) <= 6, asked


def test_the_window_of_a_record_is_found(count: Count, ten: str, hours: list[XCom], context: Context, run: Run) -> None:
    for each in hours:
        verified(each, context)
    asked = count(lambda: run("ledger", "find", "loads", ten, "0", "3", "-o", "json"))
    assert 0 < len(asked) <= 8, asked


@pytest.mark.nightly("many windows, and a checkpoint; the tests above count a ledger's requests")
def test_nothing_is_asked_more_often_for_many_windows(
    count: Count, ten: str, resolve: Resolve, ledger: Ledger, context: Context, run: Run
) -> None:
    moments = range(T0_MS - 70 * HOUR_MS, T0_MS + 1, HOUR_MS)
    windows = [resolve(ten, iso_instant(start), iso_instant(end)) for start, end in pairwise(moments)]
    asked = count(lambda: resolve(ten, at(0), at(3600)))
    assert len(asked) <= 8, asked
    counted_in(ledger, ledger.read().windows[windows[-1]["window"]])
    verified(windows[-1], context)
    again = count(lambda: verified(windows[-1], context))
    assert len(again) <= 6, again
    listed = count(lambda: run("ledger", "list", "loads", "-o", "json"))
    assert len(listed) <= 4, listed
    found = count(lambda: run("ledger", "find", "loads", ten, "0", "3", "-o", "json"))
    assert 0 < len(found) <= 8, found


def test_a_ledger_is_verified(count: Count, hours: list[XCom], context: Context) -> None:
    for each in hours:
        verified(each, context)
    asked = count(lambda: verify(WindowRef.from_json(hours[0]).ledger()))
    assert len(asked) <= 13 + 6 * len(hours), asked
    read = [each for each in asked if each.startswith("GET") and "list-type" not in each]
    assert len(read) == len(set(read)), "no file is read twice"
