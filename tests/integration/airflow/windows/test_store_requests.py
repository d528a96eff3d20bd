"""What a task asks its ledger's store for: each request to S3 takes some tens of milliseconds.

A file that is never changed is read once. What is listed or read again was to be looked at again: after Kafka was
asked, or after a file was created, somebody else may have created another one. s3fs lists the folder above as well
where one is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references.window_ref import WindowRef
from dev import s3_server
from tests.integration.airflow.conftest import T0_MS, Context, Resolve, at
from tests.integration.airflow.windows.conftest import XCom
from tests.integration.airflow.windows.counted import counted_in
from tests.integration.counting_s3 import Counting, connection_to, make_bucket

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
Count = Callable[[Callable[[], Any]], list[str]]
Store = tuple[Counting, str]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A server, and its address."""
    counting = Counting()
    with s3_server.serving(counting) as endpoint:
        yield counting, endpoint


@pytest.fixture
def root(store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh root there, which the setting names."""
    _, endpoint = store
    bucket = f"counted-{uuid4().hex[:8]}"
    make_bucket(endpoint, bucket)
    monkeypatch.setenv("AIRFLOW_CONN_COUNTED", connection_to(endpoint))
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", f"s3://counted@{bucket}")
    return f"s3://counted@{bucket}"


@pytest.fixture
def count(store: Store, root: str) -> Count:
    """What something asks the ledgers' store for."""
    counting, _ = store

    def asked(call: Callable[[], Any]) -> list[str]:
        counting.requests.clear()
        call()
        return counting.requests.copy()

    return asked


@pytest.fixture
def ledger(root: str) -> Ledger:
    return Ledger(ObjectStoragePath(root), "loads")


@pytest.fixture
def hours(ten: str, resolve: Resolve, ledger: Ledger) -> list[XCom]:
    """Three windows in a row, counted by their drivers and not published."""
    windows = [resolve(ten, at(start), at(start + 2)) for start in (2, 4, 6)]
    for window in windows:
        counted_in(ledger, ledger.pinned(window["window"]))
    return windows


def test_a_window_is_resolved(count: Count, ten: str, resolve: Resolve) -> None:
    first = count(lambda: resolve(ten, at(2), at(4)))
    assert len(first) <= 33, first
    next_one = count(lambda: resolve(ten, at(4), at(6)))
    assert len(next_one) <= 24, next_one
    again = count(lambda: resolve(ten, at(4), at(6)))
    assert len(again) <= 8, again


def test_a_load_is_prepared(count: Count, ten: str, resolve: Resolve, context: Context) -> None:
    window = resolve(ten, at(2), at(4))
    prepare = KafkaPrepareLoadOperator(task_id="p", window=window, application_args=["--output", "s3://lake/t"])
    asked = count(lambda: prepare.execute(context))
    assert len(asked) <= 18, asked


def test_a_window_is_published_and_verified_between_two_others(
    count: Count, hours: list[XCom], context: Context
) -> None:
    first, middle, last = (KafkaVerifyWindowOperator(task_id="v", window=each, on_hole="warn") for each in hours)
    for each in (first, last):
        each.execute(context)
    asked = count(lambda: middle.execute(context))
    assert len(asked) <= 40, asked
    again = count(lambda: middle.execute(context))
    assert len(again) <= 23, again


@pytest.mark.nightly("hundreds of windows; the tests below count a ledger's requests")
def test_a_window_is_verified_in_a_day_of_many_as_in_one_of_few(
    count: Count, ten: str, resolve: Resolve, ledger: Ledger, context: Context
) -> None:
    """Once all of the day's windows are pinned."""
    asked: dict[tuple[int, str], int] = {}
    for hours, midnight_ms in ((6, T0_MS // DAY_MS * DAY_MS - 2 * DAY_MS), (1, T0_MS // DAY_MS * DAY_MS - DAY_MS)):
        moments = range(midnight_ms, midnight_ms + DAY_MS + 1, hours * HOUR_MS)
        windows = [resolve(ten, iso_instant(start), iso_instant(end)) for start, end in pairwise(moments)]
        for number, which in enumerate(("first", "second", "third")):
            counted_in(ledger, ledger.pinned(windows[number]["window"]))
            verify_one = partial(KafkaVerifyWindowOperator(task_id="v", window=windows[number]).execute, context)
            asked[hours, which] = len(count(verify_one))
            asked[hours, f"{which} again"] = len(count(verify_one))
    few, many = ({which: each for (of, which), each in asked.items() if of == hours} for hours in (6, 1))
    neighbours = 6  # the second day has windows before it
    assert all(many[which] <= few[which] + neighbours for which in few), (few, many)


def test_a_ledger_is_verified(count: Count, hours: list[XCom], ledger: Ledger, context: Context) -> None:
    for each in hours:
        KafkaVerifyWindowOperator(task_id="v", window=each).execute(context)
    asked = count(lambda: verify(WindowRef.from_json(hours[0]).ledger()))
    assert len(asked) <= 13 + 6 * len(hours), asked
    read = [each for each in asked if each.startswith("GET") and "list-type" not in each]
    assert len(read) == len(set(read)), "no file is read twice"
