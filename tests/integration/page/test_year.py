"""A ledger of a year of hourly windows on S3: what the page asks the store for, however many people look at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user
from airflow.sdk import ObjectStoragePath
from fastapi import FastAPI

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import Pinning
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import month_of, window_id
from airflow_kafka_offsets.page import permissions
from airflow_kafka_offsets.page.app import make_app
from dev import s3_server
from tests.integration.counting_s3 import Counting, connection_to, make_bucket
from tests.integration.ledger.loads import AT_T0, LATER_MS, OFFSETS, judge, publish
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

pytestmark = pytest.mark.nightly("a ledger of a year; make test has the page on smaller ones")

HOURS = 365 * 24 + 5
BUCKET, PIPELINE = "year", "hourly"
READ_HOURS = 6 * 24 + 5
"""The last ones are loaded file by file; of those before, of which only names and checkpoints may be read, no more is
there."""
START_MS = T0 // (24 * HOUR_MS) * 24 * HOUR_MS
MOST_REQUESTS = 500
"""A hundred windows with three files each, lists of a dozen months of windows and snapshots, as many checkpoints."""


def window(hour: int) -> str:
    return window_id(START_MS + hour * HOUR_MS, START_MS + (hour + 1) * HOUR_MS)


def make_year(folder: Path) -> None:
    """A ledger on this disk: every window's name, checkpoints of all but the last days, the files of the last ones."""
    ledger = Ledger(ObjectStoragePath(folder.as_uri()), PIPELINE)
    ledger.create_or_check(["t"], "c", IsolationLevel.READ_UNCOMMITTED)
    first, resolved_ms = HOURS - READ_HOURS, LATER_MS + HOURS * HOUR_MS
    stored = ledger.snapshots.append(
        [
            snapshot({0: AT_T0 + hour * OFFSETS}, at_ms=START_MS + hour * HOUR_MS, resolved_at_ms=resolved_ms)
            for hour in range(first, HOURS + 1)
        ]
    )
    pinning = Pinning(ledger, "fail")
    pinned = [pinning.pin(start, end) for start, end in pairwise(stored)]
    assert not pinning.settle()
    for each in pinned:
        ledger.window_folders.of(each).record_verified("a-1", judge(each.manifest, publish(ledger, each)))
    for each in pinned[23::24]:
        ledger.keep_day(each.manifest.window)
    by_day: dict[str, list[WindowSummary]] = {}
    for hour in range(first):
        by_day.setdefault(window(hour)[:8], []).append(summary(hour, hour - first + 1))
    for day in by_day.values():
        ledger.checkpoints.write(day)
    ledger.checkpoints.put_together(ledger.checkpoints.files())


def summary(hour: int, start_snapshot: int) -> WindowSummary:
    return WindowSummary(
        window(hour), 1, WindowState.VERIFIED, "ab" * 32, start_snapshot, start_snapshot + 1, OFFSETS, 0, 1, "a-1",
        OFFSETS, f"s3://lake/{hour}", 1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    """The year's ledger in a bucket."""
    folder = tmp_path_factory.mktemp("year")
    make_year(folder)
    application = Counting()
    with s3_server.serving(application) as endpoint, pytest.MonkeyPatch.context() as patch:
        make_bucket(endpoint, BUCKET)
        from moto.s3.models import s3_backends

        bucket = s3_backends["123456789012"]["aws"]
        for file in (each for each in folder.rglob("*") if each.is_file()):
            bucket.put_object(BUCKET, str(file.relative_to(folder)), file.read_bytes())
        for hour in range(HOURS - READ_HOURS):
            place = f"{PIPELINE}/windows/{month_of(window(hour))}/{window(hour)}/manifest.json"
            bucket.put_object(BUCKET, place, b"not to be read")
        patch.setenv("AIRFLOW_CONN_YEAR_S3", connection_to(endpoint))
        patch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", f"s3://year_s3@{BUCKET}")
        yield application


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The page as a new api-server has it, for a user who may read all Dags."""
    app = make_app()
    app.dependency_overrides[permissions.ASKS.dependency] = lambda: None
    app.dependency_overrides[get_user] = lambda: SimpleNamespace()  # FastAPI reads its signature
    monkeypatch.setattr(permissions.Reader, "may_read", lambda *_: True)
    return app


def ask(page: FastAPI, *paths: str) -> list[httpx.Response]:
    """Ask all at once."""

    async def together() -> list[httpx.Response]:
        transport = httpx.ASGITransport(page)
        async with httpx.AsyncClient(transport=transport, base_url="http://page", timeout=120) as client:
            return list(await asyncio.gather(*map(client.get, paths)))

    return asyncio.run(together())


def test_it_opens_with_few_requests_and_reads_nothing_of_what_a_checkpoint_has(store: Counting, page: FastAPI) -> None:
    store.requests.clear()
    (row,), (opened,) = ask(page, "/api/pipelines"), ask(page, f"/api/pipelines/{PIPELINE}")
    (overview,) = row.json()["pipelines"]
    assert (overview["windows"], overview["published"], overview["proved"]) == (
        HOURS,
        window(HOURS - 1),
        window(HOURS - 1),
    )
    assert (overview["holes"], overview["problems"]) == ([], [])
    assert len(opened.json()["entries"]) == 100
    assert len(store.requests) < MOST_REQUESTS, store.requests[-100:]
    unread = {f"/{window(hour)}/" for hour in range(HOURS - READ_HOURS)}
    assert [each for each in store.requests if any(part in each for part in unread)] == []


def test_a_hundred_requests_at_once_ask_the_store_as_often_as_one(store: Counting, page: FastAPI) -> None:
    paths = [f"/api/pipelines/{PIPELINE}", "/api/pipelines"]
    store.requests.clear()
    for path in paths:
        ask(another(page), path)
    alone = len(store.requests)
    store.requests.clear()
    answers = ask(page, *paths * 50)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text.partition('"overview"')[2] for answer in answers[::2]}) == 1
    assert len(store.requests) <= alone


def another(page: FastAPI) -> FastAPI:
    """The page of another api-server, which has read nothing yet."""
    app = make_app()
    app.dependency_overrides = page.dependency_overrides
    return app
