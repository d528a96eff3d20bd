"""An Airflow below a path, as behind a proxy that several services share."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.lineage import PREFIX
from dev.airflow_process import AirflowProcess
from dev.airflow_services import START_DEADLINE_S, AirflowServices
from dev.ports import HOST, free_ports
from tests.integration.page.browser.conftest import opened

PATH = "/teams/data/airflow"

pytestmark = [pytest.mark.nightly("an api-server of its own; test_screens.py shows the page"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def address(airflow_services: AirflowServices, orders: Ledger) -> Iterator[str]:
    """Of a second api-server on the same database."""
    (port,) = free_ports(1)
    address = f"http://{HOST}:{port}{PATH}"
    own = {"AIRFLOW__API__BASE_URL": address, "AIRFLOW__API__PORT": str(port)}
    log = airflow_services.home / "logs" / "below-a-path.log"
    server = AirflowProcess(["api-server"], log, airflow_services.environment | own)
    server.launch()
    try:
        wait_for(f"{address}/api/v2/monitor/health", server)
        yield address
    finally:
        server.kill()


def wait_for(address: str, server: AirflowProcess) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            httpx.get(address, timeout=10).raise_for_status()
        except httpx.HTTPError:
            assert not server.has_ended, server.last_log_lines()
            assert time.monotonic() < deadline, server.last_log_lines()
            time.sleep(0.2)
        else:
            return


def test_the_page_reads_its_answers_and_leads_back_to_airflow(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}{PREFIX}/#/p/orders", 1280, "light") as page:
        expect(page.locator("h1")).to_have_text("orders")
        page.get_by_role("link", name="Airflow", exact=True).click()
        expect(page).to_have_url(f"{address}/")


def test_airflows_navigation_leads_to_it(browser: Browser, address: str) -> None:
    with opened(browser, address, 1280, "light", of_ours=False) as page:
        page.get_by_role("button", name="Browse").click()
        item = page.get_by_role("menuitem", name="Kafka windows")
        expect(item).to_be_visible()
        href = item.get_attribute("href") or item.get_by_role("link").get_attribute("href")
        assert page.evaluate("href => new URL(href, document.baseURI).href", href) == f"{address}{PREFIX}/"
