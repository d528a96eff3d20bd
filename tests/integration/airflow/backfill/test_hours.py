"""``airflow backfill create`` of a daily Dag that loads the hours of its day: one Spark run for each day, and none
for a day without records.

The Dag is in :mod:`tests.integration.airflow.backfill.loading`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.hooks.ledger import existing_ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.instants import instant_ms
from dev.kafka import Broker
from tests.integration.airflow.backfill.services import airflow_on_postgres
from tests.integration.airflow.conftest import InSparksPlace
from tests.integration.conftest import Produce
from tests.patience import RUN_S

HOUR_MS, EACH = 3_600_000, 3
"""Records of an hour."""
HOURS = "hours"
"""The Dag, its topic, its pipeline, and its group."""
DAYS = [datetime(2026, 10, day, tzinfo=ZoneInfo("Europe/Berlin")) for day in (24, 25, 26, 27, 28)]
"""The starts of four days and their end. The second one has 25 hours."""
DAG_FILE = """
from datetime import datetime, timedelta
from tests.integration.airflow.backfill.loading import loading_dag

end, split = datetime.fromisoformat({!r}), timedelta(hours=1)
dag = loading_dag("hours", "0 0 * * *", "Europe/Berlin", {!r}, {!r}, end, split=split)
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
    broker: Broker,
    admin: KafkaAdminClient,
    produce: Produce,
    in_sparks_place: InSparksPlace,
    client: OffsetsClient,
    ledger_root: Path,
    tmp_path: Path,
) -> None:
    first, _, third, fourth, end = map(instant_ms, DAYS)
    options = {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    admin.create_topics({HOURS: options}, wait_for_metadata=True)
    stamps = [*range(first, third, HOUR_MS // EACH), *range(fourth, end, HOUR_MS // EACH)]
    produce(HOURS, 0, [(stamp, None, b"x") for stamp in [*stamps, end]])
    starts = tmp_path / "starts"
    in_sparks_place(COUNT.format(str(starts)))
    with airflow_on_postgres(tmp_path / "airflow", broker) as airflow:
        text = DAG_FILE.format(DAYS[3].isoformat(), ledger_root.as_uri(), str(tmp_path / "bin"))
        (airflow.dags_folder / "hours.py").write_text(text)
        airflow.unpause(HOURS)
        dates = ["--from-date", DAYS[0].isoformat(), "--to-date", DAYS[3].isoformat()]
        airflow.run_command("backfill", "create", "--dag-id", HOURS, *dates, "--max-active-runs", "3")
        airflow.wait_until(
            lambda: len(airflow.runs(HOURS)) == 4 and set(airflow.runs(HOURS).values()) <= {"success", "failed"}, RUN_S
        )
        assert set(airflow.runs(HOURS).values()) == {"success"}
        statement = "SELECT run_id, value FROM xcom WHERE dag_id = ? AND task_id = ? AND key = 'return_value'"
        verified = dict(airflow.query(statement, HOURS, "window_load.verify"))

    hours = [verified[run] for run in sorted(verified)]
    assert [len(day) for day in hours] == [24, 25, 24, 24], "clocks are put back on the second day"
    assert [{each["rows"] for each in day} for day in hours] == [{EACH}, {EACH}, {0}, {EACH}]
    assert {each["verdict"] for day in hours for each in day} == {"read = written = log"}
    assert starts.read_text().split() == ["started"] * 3, "of the third day, there is nothing to load"
    ledger = existing_ledger(ledger_root.as_uri(), HOURS)
    assert [each.found for each in verify(ledger) if not each.holds] == []
    (committed,) = client.committed_offsets({HOURS: None}).raise_for_errors()
    assert [each.offset for each in committed.offsets] == [len(stamps)]
