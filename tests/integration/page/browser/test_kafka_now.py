"""The button "Ask Kafka now", as an api-server has it whose connection is in Airflow's database."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from airflow.sdk import ObjectStoragePath
from playwright.sync_api import Browser, expect

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.lineage.page_address import PREFIX
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary, Evidence, OffsetSnapshot
from dev.airflow_services import AirflowServices
from dev.kafka import Broker
from tests.integration.airflow.waits.whole_airflow import commit
from tests.integration.client.cases.workload import connected_client
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.ledger.loads import pin, publish
from tests.integration.page.browser.conftest import Open, opened
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def connection(airflow_services: AirflowServices, broker: Broker) -> None:
    """What the setting names."""
    extra = json.dumps({"bootstrap.servers": broker.bootstrap_servers})
    airflow_services.run_command("connections", "add", "page_kafka", "--conn-type", "kafka", "--conn-extra", extra)


@pytest.fixture
def name(topic: MakeTopic, produce: Produce) -> str:
    made = topic(config={"retention.ms": "-1"})
    produce(made, 0, [(None, None, b"x")] * 10)
    return made


@pytest.fixture
def pipeline(airflow_services: AirflowServices, broker: Broker, name: str) -> str:
    """One that has loaded four of ten records."""
    ledger = Ledger(ObjectStoragePath((airflow_services.home / "ledger").as_uri()), f"asked-{name[-8:]}")
    with connected_client(broker.bootstrap_servers) as client:
        survey = client.survey([name])
    ledger.create([name], survey.cluster_id, IsolationLevel.READ_COMMITTED)

    def at(offset: int) -> OffsetSnapshot:
        taken = snapshot({0: offset}, at_ms=T0 + offset * HOUR_MS)
        here = Boundary(name, 0, offset, Evidence.MATCHED, T0, None, 0, 10, 10)
        boundaries = {TopicPartition(name, 0): here}
        return replace(taken, cluster_id=survey.cluster_id, topics=survey.facts, boundaries=boundaries)

    publish(ledger, pin(ledger, at(0), at(4)))
    return ledger.pipeline


@pytest.mark.nightly("an Airflow of its own for a button; page/test_kafka_now.py asks for what it shows")
def test_a_press_shows_what_is_not_loaded_and_what_a_group_has_not_read(
    open_page: Open, pipeline: str, broker: Broker, name: str
) -> None:
    commit(broker, name, 3, "invoicing")
    page = open_page(f"p/{pipeline}", 390)
    page.get_by_label("Consumer group, if any").fill("invoicing")
    page.get_by_role("button", name="Ask Kafka now").click()
    shown = page.locator(".now section")
    expect(shown.locator("h3")).to_have_text(name)
    said = dict(zip(shown.locator("dt").all_inner_texts(), shown.locator("dd").all_inner_texts(), strict=True))
    assert (said["Log end"], said["Not loaded"], said["Retention"]) == ("10", "6", "forever")
    assert (said["Committed by invoicing"], said["Not read by it"].strip()) == ("3", "7")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.nightly("the test above presses the button; page/test_kafka_now.py has what is wrong")
def test_what_is_wrong_is_said_beside_the_button(
    browser: Browser, airflow_services: AirflowServices, orders: Ledger
) -> None:
    """That pipeline's topics are in another cluster. The browser's console says so too."""
    address = f"{airflow_services.url}{PREFIX}/#/p/shop"
    with opened(browser, address, 1280, "light", of_ours=False) as page:
        page.get_by_role("button", name="Ask Kafka now").click()
        expect(page.locator(".now").get_by_role("alert")).to_contain_text("topics are in cluster cluster-1")
        expect(page.get_by_role("button", name="Ask Kafka now")).to_be_enabled()
