"""The page in a real browser, served by a real api-server, over ledgers with trouble."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.lineage import PREFIX
from dev.airflow_services import AirflowServices
from dev.chromium import chromium
from dev.drawings import FOLDER
from tests.integration.page.browser.orders import HOURS, make_orders

PATIENCE_MS = 120_000
"""Playwright's own five seconds are for machines that do nothing else."""
WIDTHS = (390, 1280, 2560)
THEMES = ("light", "dark")

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each module: while it is there, an event loop runs in this thread, and nobody else's can."""
    expect.set_options(timeout=PATIENCE_MS)
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def orders(airflow_services: AirflowServices) -> Ledger:
    """The pipeline with trouble, where the api-server looks for ledgers, beside those that the docs show."""
    root = (airflow_services.home / "ledger").as_uri()
    make_orders(root, "flights_hourly", {"orders": 3}, hours=range(HOURS - 7, HOURS), trouble=False)
    make_orders(root, "shop", {"orders": 12, "payments": 4})
    return make_orders(root)


@contextmanager
def opened(browser: Browser, address: str, width: int, theme: str, *, of_ours: bool = True) -> Iterator[Page]:
    """A page of its own, which has shown what was asked for.

    :param of_ours: it is the page "Kafka windows": what its console says of errors fails the test.
    """
    said: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, locale="en-GB")  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        if of_ours:
            expect(page.locator("main")).not_to_contain_text("Reading the ledgers")
        yield page
        assert said == [] or not of_ours
    finally:
        context.close()


@pytest.fixture
def open_page(airflow_services: AirflowServices, orders: Ledger, browser: Browser) -> Iterator[Open]:
    """Open the page at a hash, at a width and in a theme."""
    with ExitStack() as pages:

        def open_at(place: str, width: int = 1280, theme: str = "light") -> Page:
            return pages.enter_context(opened(browser, f"{airflow_services.url}{PREFIX}/#/{place}", width, theme))

        yield open_at


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures for the docs go: into them by ``make pictures``."""
    return FOLDER if os.environ.get("PICTURES") else tmp_path
