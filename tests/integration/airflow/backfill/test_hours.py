"""``airflow backfill create`` of a daily Dag that loads the hours of its day: one Spark run for each day.

The Dag is in :mod:`tests.integration.airflow.backfill.hours`.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.hooks.ledger import existing_ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.instants import instant_ms
from dev.airflow_services import AirflowServices
from tests.integration.airflow.backfill.hours import END, FIRST, HOURS
from tests.integration.airflow.conftest import InSparksPlace
from tests.integration.conftest import Produce
from tests.patience import RUN_S

HOUR_MS, EACH = 3_600_000, 3
"""Records of an hour."""
DAG_FILE = """
from tests.integration.airflow.backfill.hours import hours_dag

dag = hours_dag({!r}, {!r}, {!r})
"""
COUNT = """
from tests.integration.airflow.in_sparks_place import count_batch

with open({!r}, "a") as starts:
    starts.write("started ")
count_batch()
"""

pytestmark = [
    pytest.mark.nightly("minutes of an Airflow; windows/test_many_windows.py loads lists in this process"),
    pytest.mark.timeout(900),
]


def test_each_day_loads_its_hours_with_one_spark_run(
    airflow_services: AirflowServices,
    admin: KafkaAdminClient,
    produce: Produce,
    in_sparks_place: InSparksPlace,
    client: OffsetsClient,
    ledger_root: Path,
    tmp_path: Path,
) -> None:
    first_ms, end_ms, starts = instant_ms(FIRST), instant_ms(END), tmp_path / "starts"
    options = {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    admin.create_topics({HOURS: options}, wait_for_metadata=True)
    produce(HOURS, 0, [(at_ms, None, b"x") for at_ms in range(first_ms, end_ms + 1, HOUR_MS // EACH)])
    in_sparks_place(COUNT.format(str(starts)))
    airflow, text = airflow_services, DAG_FILE.format(HOURS, ledger_root.as_uri(), str(tmp_path / "bin"))
    (airflow.dags_folder / "hours.py").write_text(text)
    airflow.unpause(HOURS)
    dates = ["--from-date", FIRST.isoformat(), "--to-date", (END - timedelta(days=1)).isoformat()]
    airflow.run_command("backfill", "create", "--dag-id", HOURS, *dates, "--max-active-runs", "3")
    airflow.wait_until(
        lambda: len(airflow.runs(HOURS)) == 3 and set(airflow.runs(HOURS).values()) <= {"success", "failed"}, RUN_S
    )

    assert set(airflow.runs(HOURS).values()) == {"success"}
    assert starts.read_text().split() == ["started"] * 3
    statement = "SELECT run_id, value FROM xcom WHERE dag_id = ? AND task_id = ? AND key = 'return_value'"
    verified = {run: json.loads(value) for run, value in airflow.query(statement, HOURS, "window_load.verify")}
    assert [len(verified[run]) for run in sorted(verified)] == [24, 25, 24], "clocks are put back on the second day"
    assert {(each["rows"], each["verdict"]) for hours in verified.values() for each in hours} == {
        (EACH, "read = written = log")
    }
    ledger = existing_ledger(ledger_root.as_uri(), HOURS)
    assert [each.found for each in verify(ledger) if not each.holds] == []
    (committed,) = client.committed_offsets({HOURS: None}).raise_for_errors()
    assert [each.offset for each in committed.offsets] == [(end_ms - first_ms) // HOUR_MS * EACH]
