"""A ledger of a year of hourly windows on S3: what the page asks the store for, however many people look at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI

from airflow_kafka_offsets.ledger.entries import AnyEntry, Attempted, Output, Pinned, Published, Snapshotted, Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.page import permissions
from airflow_kafka_offsets.page.app import make_app
from dev import s3_server
from tests.integration.counting_s3 import Counting, connection_to, make_bucket
from tests.integration.ledger.loads import OFFSETS, at_hour, window
from tests.integration.ledger.results import RUN
from tests.integration.page.conftest import open_pipeline
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.nightly("a ledger of a year; make test has the page on smaller ones")

HOURS = 365 * 24
BUCKET, PIPELINE = "year", "hourly"
SHOWN = 100
"""Windows that the page shows at once. Of those before, only what the log says may be read: no more is there."""


def make_year(folder: Path) -> None:
    """A ledger on this disk: all windows in the log, and the files of the last ones."""
    ledger = open_pipeline(folder.as_uri(), PIPELINE)
    taken = [at_hour(hour) for hour in range(HOURS + 1)]
    commit(ledger, [snapshot_entry(ledger, each, hour) for hour, each in enumerate(taken)])
    commit(ledger, [window_entry(ledger, taken, hour) for hour in range(HOURS)])
    names = [window(hour) for hour in range(HOURS)]
    number = commit(ledger, [Attempted(name, {"dag_id": "loads"}) for name in names])
    outputs = (Output("", "parquet", "s3://lake/year", OFFSETS),)
    commit(ledger, [Published(name, number, RUN, "ab" * 32, outputs, True, 1) for name in names])
    commit(ledger, [Verified(name, number, {"gaps": 0}) for name in names])


def snapshot_entry(ledger: Ledger, taken: OffsetSnapshot, hour: int) -> Snapshotted:
    offsets = ledger.contents.add_snapshot(taken) if hour >= HOURS - SHOWN else "ab" * 32
    return Snapshotted(taken.timestamp_ms, offsets)


def window_entry(ledger: Ledger, taken: list[OffsetSnapshot], hour: int) -> Pinned:
    manifest = Manifest.of(PIPELINE, ledger.id, taken[hour], taken[hour + 1])
    stored = ledger.contents.add_manifest(manifest) if hour >= HOURS - SHOWN else "cd" * 32
    return Pinned(window(hour), stored, OFFSETS)


def commit(ledger: Ledger, entries: list[AnyEntry]) -> int:
    """All at once, as a bulk resolve does it. Returns the commit's number."""
    expected = ledger.read().number
    return ledger.change(lambda state: entries if state.number == expected else [])


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
        async with httpx.AsyncClient(transport=transport, base_url="http://page", timeout=PATIENCE_S) as client:
            return list(await asyncio.gather(*map(client.get, paths)))

    return asyncio.run(together())


def test_it_opens_with_few_requests_and_reads_nothing_of_what_the_log_says(store: Counting, page: FastAPI) -> None:
    store.requests.clear()
    (row,) = ask(page, "/api/pipelines")
    (overview,) = row.json()["pipelines"]
    assert (overview["windows"], overview["states"]) == (HOURS, {"verified": HOURS})
    assert overview["published"] == window(HOURS - 1)
    assert overview["holes"] == []
    assert len(store.requests) <= 8, store.requests
    store.requests.clear()
    (opened,) = ask(page, f"/api/pipelines/{PIPELINE}")
    assert len(opened.json()["entries"]) == SHOWN
    assert store.requests == [], "the log says all of it"


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
