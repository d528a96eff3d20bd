"""A store that hangs holds no thread that Airflow's api-server answers its tasks with."""

from __future__ import annotations

import asyncio
from threading import Event
from types import SimpleNamespace

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI

from airflow_kafka_offsets.page import app as page_app, ledgers, permissions
from tests.patience import GRACE_S, PATIENCE_S

REQUESTS = 60
"""More than the threads that all routes of a server share."""


def test_other_routes_answer_beside_many_requests_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, goes_on = Event(), Event()

    def hang(_: object) -> list[str]:
        hanging.set()
        assert goes_on.wait(PATIENCE_S)
        raise OSError("read timed out")

    monkeypatch.setattr(ledgers, "pipelines", hang)
    page = page_app.make_app()
    page.dependency_overrides[permissions.ASKS.dependency] = lambda: None
    page.dependency_overrides[get_user] = lambda: SimpleNamespace()  # FastAPI reads its signature
    server = FastAPI()
    server.mount("/kafka-windows", page)

    @server.get("/heartbeat")
    def heartbeat() -> str:
        return "ok"

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(server)
        async with httpx.AsyncClient(transport=transport, base_url="http://page", timeout=PATIENCE_S) as client:
            pages = [asyncio.create_task(client.get("/kafka-windows/api/pipelines")) for _ in range(REQUESTS)]
            await asyncio.to_thread(hanging.wait, 60)
            try:
                answer = await asyncio.wait_for(client.get("/heartbeat"), 2 * GRACE_S)
                assert answer.json() == "ok"
            finally:
                goes_on.set()
            return [(await each).status_code for each in pages]

    assert set(asyncio.run(ask())) == {502}
