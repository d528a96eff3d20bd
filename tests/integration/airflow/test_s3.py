"""All of it on S3: the ledger by Airflow's object storage, Spark by S3A with the Hadoop that it brings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import boto3
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.file_lists import published_files
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from dev import jars
from dev.spark_packages import folder_of
from tests.integration.airflow.conftest import RECORDS_A_DAY, DagFrom
from tests.integration.airflow.example_dags import home, run_script
from tests.integration.ledger.loads import windows_of

__all__ = ["home"]

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(900)]

Run = Callable[..., dict[str, str]]
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
APPLICATION = str(Path(__file__).with_name("s3_load.py"))
DAG_FILE = """
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.task_groups import kafka_window_load

with DAG(
    "on_s3",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 3, 9, tzinfo=UTC),
    default_args={{"retries": {retries}, "retry_delay": timedelta(0)}},
):
    flights = kafka_window_load(
        pipeline="flights",
        topics="flights",
        idle="assume_after",
        idle_after=60,
        application={application!r},
        application_args=["s3://lake_s3@{bucket}/flights", {marker!r}],
        conf={confs!r},
    )
    flights >> KafkaCommitOffsetsOperator(task_id="commit", window=flights.window, group={group!r})
"""
RUN = """
import json
from datetime import UTC, datetime
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
{before}
DagRun.generate_run_id = staticmethod(lambda **_: "manual__of_the_day")  # as tries of one task have it
dag = DagBag({file!r}, bundle_name="dags-folder").dags["on_s3"]
run = dag.test(logical_date=datetime(2013, 3, 10, tzinfo=UTC))
print(json.dumps({{ti.task_id.partition(".")[2] or ti.task_id: str(ti.state) for ti in run.get_task_instances()}}))
"""


@pytest.fixture
def bucket(s3_endpoint: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket for ledger and output, which the connection ``lake_s3`` reaches."""
    name = f"lake-{uuid4().hex[:8]}"
    boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **CREDENTIALS).create_bucket(Bucket=name)
    extra = {"endpoint_url": s3_endpoint, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_S3", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", f"s3://lake_s3@{name}/ledger")
    return name


def confs(s3_endpoint: str) -> dict[str, str]:
    """Spark's S3, as its own Hadoop version has it."""
    folders = [
        folder_of("connector"),
        jars.retrieve("spark-s3-3.4.1", "org.apache.hadoop:hadoop-aws:3.4.1"),
    ]
    s3a = {
        "endpoint": s3_endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "test",
        "secret.key": "test",
    }
    classes = {"spark.driver.extraClassPath": os.pathsep.join(jars.classpath(each) for each in folders)}
    return classes | {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}


class TestTheWholeDag:
    @pytest.fixture
    def run(self, bucket: str, s3_endpoint: str, home: Path, dag_from: DagFrom) -> Run:
        """Runs the Dag of one day, once more for each call."""

        def make(before: str = "", retries: int = 0) -> dict[str, str]:
            names = {"bucket": bucket, "application": APPLICATION, "marker": str(home / "died"), "retries": retries}
            (home / "dags").mkdir(exist_ok=True)
            source = DAG_FILE.format(**names, confs=confs(s3_endpoint), group=f"on-s3-{bucket}")
            dag_from("on_s3", source)
            result = run_script(RUN.format(file=str(home / "dags" / "on_s3.py"), before=before))
            try:
                states: dict[str, str] = json.loads(result.stdout.splitlines()[-1])
            except (IndexError, ValueError):
                return {"died": result.stdout[-3000:] + result.stderr[-3000:]}
            if set(states.values()) != {"success"}:
                print(result.stdout[-8000:], result.stderr[-3000:])
            return states

        return make

    @pytest.fixture
    def ledger(self, bucket: str) -> Ledger:
        return Ledger(ObjectStoragePath(f"s3://lake_s3@{bucket}/ledger"), "flights")

    def test_it_publishes_once_though_its_driver_dies(
        self, run: Run, ledger: Ledger, home: Path, s3_endpoint: str
    ) -> None:
        """By Airflow's own retry."""
        assert set(run(retries=1).values()) == {"success"}
        assert (home / "died").exists()
        assert_published_once(ledger, s3_endpoint, attempts=2)


def assert_published_once(ledger: Ledger, s3_endpoint: str, attempts: int) -> None:
    """One window, one publication, each record once in the files that it lists."""
    (window,) = windows_of(ledger)
    assert window.publication is not None
    assert window.publication.number > attempts
    begun = {each.partition("/")[0] for each in ledger.files.names(f"windows/{window.name}") if each.isdigit()}
    assert len(begun) <= attempts
    assert [each.found for each in verify(ledger) if not each.holds] == []
    store = pyarrow.fs.S3FileSystem(
        endpoint_override=s3_endpoint, access_key="test", secret_key="test", region="us-east-1"
    )
    listed = [each.removeprefix("s3://") for each in published_files(ledger, None, None)[window.name]]
    rows = pyarrow.concat_tables(
        pyarrow.parquet.read_table(each, filesystem=store, columns=["partition", "offset"]) for each in listed
    )
    assert len(rows) == len({(each["partition"], each["offset"]) for each in rows.to_pylist()}) == 2 * RECORDS_A_DAY
