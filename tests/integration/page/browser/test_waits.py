"""What sensors wait for, as a whole Airflow has it: deferred ones, for a group that is behind."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from kafka import KafkaAdminClient
from playwright.sync_api import expect

from airflow_kafka_offsets.lineage import PREFIX
from dev.airflow_services import AirflowServices
from dev.kafka import Broker
from tests.integration.airflow.waits.whole_airflow import DEADLINE_S, commit
from tests.integration.conftest import Produce
from tests.integration.kafka_clients import connect
from tests.integration.page.browser.conftest import Open
from tests.patience import PATIENCE_S

DAG_ID = "billing_report"
GROUP, TOPIC = "billing", "invoices"
DAG = """
from datetime import timedelta

from airflow.sdk import DAG

from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor
from airflow_kafka_offsets.sensors.group_sensors import KafkaOffsetsReachedSensor

with DAG("{dag_id}", schedule=None):
    KafkaGroupLagSensor(
        task_id="lag", groups="{group}", max_age=timedelta(minutes=5), max_lag=2, deferrable=True, timeout=7_200
    )
    KafkaOffsetsReachedSensor(task_id="drained", group="{group}", topics="{topic}", deferrable=True)
    KafkaGroupLagSensor(task_id="poking", groups=["{group}"], topics="{topic}", poke_interval=2)
"""

pytestmark = [
    pytest.mark.nightly("a minute of an Airflow whose tasks wait; page/test_waits.py asks the page's API for such"),
    pytest.mark.timeout(900),
]


@pytest.fixture
def waiting(airflow_services: AirflowServices, broker: Broker, produce: Produce) -> None:
    """A run whose sensors wait, as the group has read nothing. The last one pokes."""
    with closing(connect(KafkaAdminClient, bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    produce(TOPIC, 0, [(None, None, b"x")] * 5)
    commit(broker, TOPIC, 0, GROUP)
    text = DAG.format(dag_id=DAG_ID, group=GROUP, topic=TOPIC)
    (airflow_services.dags_folder / f"{DAG_ID}.py").write_text(text, encoding="utf-8")
    airflow_services.unpause(DAG_ID)
    run_id = airflow_services.trigger(DAG_ID)
    states = {"lag": "deferred", "drained": "deferred", "poking": "running"}
    airflow_services.wait_until(lambda: airflow_services.task_states(DAG_ID, run_id) == states, DEADLINE_S)


def test_groups_have_a_row_for_each_sensor_that_waits_for_them(
    airflow_services: AirflowServices,
    broker: Broker,
    waiting: None,
    open_page: Open,
    pictures: Path,
) -> None:
    page = open_page("waits")
    rows = page.locator("main tbody tr", has_text=GROUP)
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="task lag")).to_contain_text(
        "the group is at most 2 offsets behind and behind by no record older than 5 minutes"
    )
    expect(rows.filter(has_text="task lag")).to_contain_text(re.compile("1[0-9]{2} minutes"), use_inner_text=True)
    drained = rows.filter(has_text="task drained")
    expect(drained).to_contain_text(re.compile(r"the group has committed up to the log end at 20\d\d-"))
    expect(drained).to_contain_text(TOPIC)
    expect(drained).to_contain_text("billing is 5 offsets before the log end")
    page.get_by_role("button", name="Ask Kafka how far they are").click()
    expect(page.get_by_text("Asked at")).to_be_visible()
    expect(drained).to_contain_text("billing is 5 offsets before the log end")
    expect(drained).not_to_contain_text("when it was deferred")
    link = drained.get_by_role("link")
    assert re.match(rf"\.\./dags/{DAG_ID}/runs/[^/]+/tasks/drained$", str(link.get_attribute("href")))
    page.locator("main").screenshot(path=pictures / "page-waits.png")

    commit(broker, TOPIC, None, GROUP)
    airflow_services.wait_until(lambda: {*airflow_services.runs(DAG_ID).values()} == {"success"}, DEADLINE_S)
    answer = httpx.get(f"{airflow_services.url}{PREFIX}/api/waits", timeout=PATIENCE_S).json()
    assert [wait for wait in answer["waits"] if wait["dag_id"] == DAG_ID] == []
