"""The example Dags, run as they are: real broker, real spark-submit, Airflow's own task runner."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from upath import UPath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator, KafkaResolvingOperator
from dev import ROOT
from dev.kafka import Broker
from tests.integration.airflow.conftest import RECORDS_A_DAY, Resolve, flight, sasl, use_connection
from tests.integration.airflow.example_dags import CAUGHT_UP, GROUP, commit, home, meanwhile, run_dag, run_script
from tests.integration.conftest import USERS, Produce

__all__ = ["home"]

# Whole Airflow runs here, scheduler code and web framework included: their warnings aren't ours to mend.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(900)]


def rows_of(home: Path) -> int:
    """Rows that are published, counted by pyarrow from what the ledger names."""
    import pyarrow.parquet as pq

    total = 0
    for window in Ledger(UPath(home / "ledger"), "flights_daily").state.published:
        assert window.publication is not None
        output = urlsplit(window.publication.outputs[0].output or "").path
        total += sum(pq.read_metadata(file).num_rows for file in Path(output).glob("*.parquet"))
    return total


class TestEveryDag:
    def test_all_example_dags_import(self, airflow_db: Path) -> None:
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(str(ROOT / "dags"), bundle_name="dags-folder")
        assert not bag.import_errors
        assert set(bag.dags) == {path.stem for path in (ROOT / "dags").glob("*.py")}

    def test_those_that_load_windows_of_a_schedule_leave_none_out(self, airflow_db: Path) -> None:
        """By default Airflow skips the intervals of an outage, and their windows with them."""
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(str(ROOT / "dags"), bundle_name="dags-folder")
        scheduled = {
            name: dag.catchup
            for name, dag in bag.dags.items()
            if dag.timetable.can_be_scheduled
            and any(isinstance(each, KafkaResolveWindowOperator) for each in dag.tasks)
        }
        assert len(scheduled) > 4
        assert set(scheduled.values()) == {True}


@pytest.mark.nightly("an Airflow and drivers of its own; test_s3.py runs such a Dag, dev/demo.py this one")
class TestFlightsDaily:
    @pytest.mark.nightly("two drivers; test_s3.py kills a driver in a Dag")
    def test_a_load_killed_half_way_is_retried_without_loss_or_doubling_and_its_password_is_in_no_log(
        self, home: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S22: the Spark driver is killed once it has begun to write; Airflow's retry reads the same range."""
        use_connection(monkeypatch, "locked", sasl(broker, "admin", USERS["admin"]))
        killed = threading.Event()
        output = home / "output" / "flights"

        def kill_when_writing() -> None:
            while not killed.is_set():
                if any(output.glob("window=*/attempt=*/_temporary")):
                    killed.set()
                    subprocess.run(["pkill", "-KILL", "-f", "--", f"--output {output.as_uri()}"], check=False)
                time.sleep(0.01)

        watcher = threading.Thread(target=kill_when_writing, daemon=True)
        watcher.start()
        result = run_script(_RUN_LOAD_TWICE)
        assert killed.is_set(), result.stdout[-3000:]
        outcome = json.loads(result.stdout.splitlines()[-1])
        assert (outcome["first"], outcome["verdict"]) == ("failed", "read = written = log")
        assert outcome["rows"] == rows_of(home) == 2 * RECORDS_A_DAY
        assert len(list(output.glob("window=*/attempt=*"))) == 2
        assert USERS["admin"] not in result.stdout + result.stderr
        assert [path for path in home.rglob("*.json") if USERS["admin"] in path.read_text()] == []


class TestHoursOfADay:
    def test_one_spark_run_loads_the_hours_of_the_day_on_which_clocks_go_forward(self, home: Path) -> None:
        ran = run_dag("hours_of_a_day", datetime(2013, 3, 11, 4, tzinfo=UTC))
        assert {task: state for task, (state, _) in ran.items()} == dict.fromkeys(ran, "success")
        loads, verified = ran["hours.load"][1], ran["hours.verify"][1]
        assert len(loads) == len(verified) == 23
        assert {each["verdict"] for each in verified} == {"read = written = log"}
        with_rows = [each for each in loads if each["rows"]]
        assert len({each["application_id"] for each in with_rows}) == 1, "one run of Spark"
        start, end = datetime(2013, 3, 10, 5, tzinfo=UTC), datetime(2013, 3, 11, 4, tzinfo=UTC)
        stamps = [flight(number)[0] for number in range(3 * RECORDS_A_DAY + 1)]
        inside = [each for each in stamps if start.timestamp() * 1000 <= each < end.timestamp() * 1000]
        assert sum(each["rows"] for each in loads) == 2 * len(inside) > 0
        assert ran["commit"][1]["committed"] == 2


@pytest.mark.nightly("a driver of its own; spark/test_derived.py counts such rows")
class TestFlightsPerHour:
    def test_a_day_is_counted_by_hour_and_carrier_and_what_is_no_flight_is_published_beside_it(
        self, home: Path
    ) -> None:
        """From one read of Kafka; and a rerun changes nothing."""
        import pyarrow.parquet as pq

        ran = run_dag("flights_per_hour", datetime(2013, 3, 10, tzinfo=UTC))
        assert {task: state for task, (state, _) in ran.items()} == dict.fromkeys(ran, "success")
        day = [flight(number)[2] for number in range(RECORDS_A_DAY)] * 2
        flights = [json.loads(value) for value in day if value.startswith(b"{")]
        expected = Counter((each["time_hour"], each["carrier"]) for each in flights)
        load, verify = ran["window_load.load"][1], ran["window_load.verify"][1]
        rows = pq.read_table(load["output"].removeprefix("file:")).to_pylist()
        assert {(row["time_hour"], row["carrier"]): row["flights"] for row in rows} == expected
        assert sum(row["miles"] for row in rows) == sum(each["distance"] for each in flights)
        _, unreadable = load["outputs"]
        found = pq.read_table(unreadable["output"].removeprefix("file:")).column("value").to_pylist()
        assert found == [b"not a flight"] * (len(day) - len(flights)) != []
        words = f"read = log ({len(expected)} rows written by your job, {len(found)} to unreadable)"
        assert (verify["verdict"], verify["read"], verify["outputs"]) == (words, len(day), load["outputs"])

        again = run_dag("flights_per_hour", datetime(2013, 3, 10, tzinfo=UTC))
        assert again["window_load.load"][1]["attempt"] == load["attempt"]
        assert again["window_load.verify"][1]["verdict"] == words


_RUN_LOAD_TWICE = """
import json, os, sys
from types import SimpleNamespace
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
pipeline = KafkaPipeline("flights_daily", "flights", kafka_conn_id="locked")
context = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=1, max_tries=0)}
window = KafkaResolveWindowOperator(
    task_id="r", pipeline=pipeline, start="2013-03-09T00:00:00Z", end="2013-03-10T00:00:00Z"
).execute(context)
def load():
    return KafkaSparkSubmitOperator(
        task_id="l", window=window, durable=False,
        connector="auto",
        application_args=["--output", os.environ["AIRFLOW_VAR_FLIGHTS_OUTPUT"]],
    ).execute(context)
try:
    load()
    first = "succeeded"
except Exception as error:
    first = "failed"
rows = load()["rows"]
verdict = KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)["verdict"]
print(json.dumps({"first": first, "rows": rows, "verdict": verdict}))
"""


@pytest.mark.nightly("an Airflow and a driver of their own; test_prepare_load.py has a load that others submit")
class TestTaskPySpark:
    def test_a_task_reads_parses_and_writes_in_its_own_session_and_verify_publishes(
        self, home: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a process of its own, as on a worker: this one may have another Spark session. The connection is one that
        a form makes: its brokers aren't in the extra."""
        monkeypatch.setenv(
            "AIRFLOW_CONN_KAFKA_DEFAULT",
            json.dumps({"conn_type": "kafka_offsets", "host": broker.bootstrap_servers}),
        )
        result = run_script(_RUN_TASK_PYSPARK)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
        prepared, verified = json.loads(result.stdout.splitlines()[-1])
        assert (verified["written"], verified["verdict"]) == (2 * RECORDS_A_DAY, "read = written = log")
        assert verified["attempt"] == prepared["attempt"]


_RUN_TASK_PYSPARK = """
import json
from datetime import UTC, datetime
from airflow.dag_processing.dagbag import DagBag
dag = DagBag("dags/task_pyspark.py", bundle_name="dags-folder").dags["task_pyspark"]
dag.get_task("load").retries = 0  # a failure is to be seen at once
run = dag.test(logical_date=datetime(2013, 3, 10, tzinfo=UTC))
results = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in run.get_task_instances()}
print(json.dumps([results["prepare"], results["verify"]]))
"""


class TestGroupCaughtUp:
    def test_it_waits_for_the_group_and_keeps_its_commits(self, home: Path, broker: Broker) -> None:
        commit(broker, 5)
        with meanwhile(commit, broker, None):
            results = run_dag("group_caught_up", datetime.now(UTC))
        state, result = results["caught_up"]
        assert (state, result) == ("success", CAUGHT_UP)
        assert results["keep"][1]["as_of"] == f"group {GROUP}"


class TestDrained:
    def test_it_waits_until_the_group_has_read_what_was_there(self, home: Path, broker: Broker) -> None:
        commit(broker, 5)
        with meanwhile(commit, broker, None):
            results = run_dag("drained", datetime.now(UTC))
        state, result = results["drained"]
        assert (state, result["group"], result["partitions"]) == ("success", GROUP, 2)
        assert result["ledger"] == results["end"][1]["ledger"]


class TestSnapshotSchedule:
    def test_each_run_keeps_where_the_topic_stood_at_its_tick_and_the_same_again(self, home: Path) -> None:
        from airflow.dag_processing.dagbag import DagBag

        dag = DagBag(str(ROOT / "dags" / "snapshot_schedule.py"), bundle_name="dags-folder").dags["snapshot_schedule"]
        tick = datetime(2013, 3, 10, 0, 10, tzinfo=UTC)
        kept = []
        for _ in range(2):
            (task,) = dag.test(logical_date=tick, run_after=tick).get_task_instances()
            kept.append((str(task.state), task.xcom_pull(task_ids="snapshot")))
        (state, snapshot), again = kept
        assert (state, snapshot["as_of"], snapshot["partitions"]) == ("success", "2013-03-10T00:10:00.000Z", 2)
        assert again == (state, snapshot)


@pytest.mark.nightly("a driver of its own; windows/test_between_snapshots.py has such windows, other Dags drivers")
class TestSnapshotsLoad:
    def test_spark_reads_what_arrives_between_two_snapshots(self, home: Path, produce: Produce) -> None:
        with meanwhile(produce, "flights", 0, [(None, None, b"x")] * 100):
            results = run_dag("snapshots_load", datetime.now(UTC))
        assert {task: state for task, (state, _) in results.items()} == dict.fromkeys(results, "success")
        assert results["arrived"][1]["new"] == {"flights": 100}
        assert results["load"][1]["rows"] == results["resolve"][1]["offsets"] == 100
        assert results["verify"][1]["verdict"] == "read = written = log"


class TestTogether:
    """On one ledger, as somebody has them who has copied the folder."""

    def test_no_pipeline_is_that_of_two_dags_that_pin_windows(self, airflow_db: Path) -> None:
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(str(ROOT / "dags"), bundle_name="dags-folder")
        pinning = Counter(
            pipeline
            for dag in bag.dags.values()
            for pipeline in {task.pipeline.name for task in dag.tasks if isinstance(task, KafkaResolvingOperator)}
        )
        assert len(pinning) > 6
        assert set(pinning.values()) == {1}

    @pytest.mark.nightly("runs Spark eight times; the test above shows why none is in another's way")
    def test_none_is_in_the_way_of_another(self, home: Path, broker: Broker, produce: Produce) -> None:
        """Each runs once, the increments first, and then the next day of those that load days."""
        produce("flights", 0, [(None, None, b"x")] * 100)
        day, now = datetime(2013, 3, 10, tzinfo=UTC), datetime.now(UTC)
        days = ("flights_daily", "flights_per_hour", "window_load", "classic_spark_submit")
        runs = [("incremental", now), *((dag_id, day) for dag_id in days), ("flights_daily", day + timedelta(days=1))]
        runs += [("snapshot_schedule", day), ("retention_watch", now)]
        states = {}
        for dag_id, moment in runs:
            states |= {f"{dag_id}.{task}": state for task, (state, _) in run_dag(dag_id, moment).items()}
        for dag_id in ("group_caught_up", "drained", "own_sensor"):
            commit(broker, 5)
            with meanwhile(commit, broker, None):
                states |= {f"{dag_id}.{task}": state for task, (state, _) in run_dag(dag_id, now).items()}
        assert states == dict.fromkeys(states, "success")


class TestRetentionWatch:
    def test_what_is_not_loaded_of_a_topic_that_keeps_everything_is_in_no_danger(
        self, home: Path, resolve: Resolve
    ) -> None:
        window = resolve("flights", "2013-03-09T00:00:00Z", "2013-03-10T00:00:00Z", pipeline="flights_daily")
        state, result = run_dag("retention_watch", datetime.now(UTC))["watch"]
        assert (state, [each["window"] for each in result["windows"]]) == ("success", [window["window"], "backlog"])
        assert {(each["loses_at"], each["lost"], each["unknown"]) for each in result["windows"]} == {(None, 0, 0)}


class TestOwnSensor:
    def test_it_passes_when_one_of_two_groups_has_caught_up(self, home: Path, broker: Broker) -> None:
        """The other group doesn't exist."""
        commit(broker, 5)
        with meanwhile(commit, broker, None):
            state, results = run_dag("own_sensor", datetime.now(UTC))["one_of_two_caught_up"]
        assert (state, results[0]) == ("success", CAUGHT_UP)
        assert results[1]["groups"] == {"flights-copy": None}


class TestLagAlert:
    def test_a_group_that_is_moved_back_and_then_stands_still_is_alerted(
        self, home: Path, broker: Broker, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Each run compares with the one before, whether that failed or not."""
        commit(broker, None)
        state, result = run_dag("lag_alert", datetime.now(UTC))["check_groups"]
        assert (state, result) == ("success", {"groups": {GROUP: {"alarms": [], "lag": 0, "age_s": 0}}})
        commit(broker, 5)
        for alarms in (["age", "rewound"], ["age", "stalled"]):
            state, result = run_dag("lag_alert", datetime.now(UTC))["check_groups"]
            assert (state, result["groups"][GROUP]["alarms"]) == ("failed", alarms)
        assert "Kafka: 1 of 1 group needs attention:\ngroup" in caplog.text
