"""A load that is prepared, submitted by somebody else, and verified: with a real ``spark-submit`` in that place."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.errors import ConfigurationError, DataLossError, LedgerCorruptError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator, SparkCluster
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.triggers.ledger_looks import KafkaWindowLoadedTrigger
from dev.kafka import Broker
from dev.spark_packages import CONNECTOR, VERSION, jars_of
from tests.integration.airflow.conftest import Context, Resolve, at, fails_with, sasl, use_connection
from tests.integration.conftest import USERS

pytestmark = pytest.mark.timeout(900)
Submit = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    """Do what a submitter does with the words that follow ``spark-submit``, on a machine without this package."""

    def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        # The connector's jars are here already.
        local = ["--master", "local[1]", "--jars", jars_of("connector"), "--conf", "spark.ui.enabled=false"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1"}
        program = str(Path(sys.executable).with_name("spark-submit"))
        return subprocess.run([program, *local, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def prepare(window: dict[str, Any], context: Context, output: Path, **arguments: Any) -> dict[str, Any]:
    arguments = {"application_args": ["--output", output.as_uri()]} | arguments
    return KafkaPrepareLoadOperator(task_id="prepare", window=window, **arguments).execute(context)


class TestSubmittedByAnybody:
    def test_the_load_is_published_by_verify(
        self, ten: str, resolve: Resolve, context: Context, tmp_path: Path, submit: Submit, ledger: Ledger
    ) -> None:
        window = resolve(ten, at(2), at(7))
        prepared = json.loads(json.dumps(prepare(window, context, tmp_path / "out")))
        answer = submit(prepared["submit"])
        assert answer.returncode == 0, answer.stderr[-3000:]
        verify = KafkaVerifyWindowOperator(task_id="verify", window=window, load=prepared)
        report = verify.execute(context)
        assert (report["read"], report["written"], report["verdict"]) == (5, 5, "read = written = log")
        assert verify.execute(context)["attempt"] == report["attempt"]
        (attempt,) = ledger.read().windows[window["window"]].attempts
        assert attempt.number == report["attempt"] == prepared["attempt"]
        assert attempt.who["task_id"] == "t"

    def test_a_window_without_offsets_is_published_and_needs_no_driver(
        self, ten: str, resolve: Resolve, context: Context, tmp_path: Path
    ) -> None:
        """S6."""
        window = resolve(ten, at(20), at(30))
        prepared = json.loads(json.dumps(prepare(window, context, tmp_path / "out")))
        assert prepared["needs_driver"] is False
        verify = KafkaVerifyWindowOperator(task_id="verify", window=window, load=prepared, deferrable=True)
        report = verify.execute(context)
        assert (report["offsets"], report["written"], report["verdict"]) == (0, 0, "read = written = log")
        again = prepare(window, context, tmp_path / "out")
        assert again["needs_driver"] is False
        assert verify.execute(context)["attempt"] == report["attempt"]

    def test_a_window_whose_offsets_are_all_lost_needs_one(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, context: Context, tmp_path: Path, ledger: Ledger
    ) -> None:
        """Rows of an earlier attempt may be in a table, which only a driver can clear."""
        window = resolve(ten, at(2), at(7))
        admin.delete_records({TopicPartition(ten, 0): 7})
        prepared = prepare(window, context, tmp_path / "out", on_data_loss="load_rest")
        assert prepared["needs_driver"] is True
        assert ledger.window(window["window"]).publication is None
        verify = KafkaVerifyWindowOperator(task_id="verify", window=window, load=prepared, deferrable=True)
        with pytest.raises(TaskDeferred):
            verify.execute(context)

    def test_each_form_says_the_same(self, ten: str, resolve: Resolve, context: Context, tmp_path: Path) -> None:
        prepared = prepare(
            resolve(ten, at(2), at(7)),
            context,
            tmp_path / "a folder",
            conf={
                "spark.executor.memory": "2g",
                "spark.name": "it's one",
                "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0",
                "spark.submit.pyFiles": "s3://jobs/a.zip,s3://jobs/b.zip",
            },
            cluster=SparkCluster(spark_version=VERSION),
        )
        words = [word for name, value in prepared["conf"].items() for word in ("--conf", f"{name}={value}")]
        assert prepared["conf_args"] == words
        assert prepared["packages"] == ["io.delta:delta-spark_2.13:4.0.0", CONNECTOR]
        assert prepared["conf"]["spark.jars.packages"] == ",".join(prepared["packages"])
        assert prepared["py_files"][1:] == ["s3://jobs/a.zip", "s3://jobs/b.zip"]
        assert "spark.submit.pyFiles" not in prepared["conf"]
        options = [*words, "--py-files", ",".join(prepared["py_files"])]
        assert shlex.split(prepared["options_text"]) == options
        assert prepared["submit"] == [*options, prepared["application"], *prepared["arguments"]]
        assert prepared["arguments"] == ["--output", (tmp_path / "a folder").as_uri()]
        assert prepared["conf"]["spark.executor.memory"] == "2g"

    def test_files_lie_where_they_are_told_to(
        self, ten: str, resolve: Resolve, context: Context, tmp_path: Path
    ) -> None:
        folder = tmp_path / "for-the-cluster"
        prepared = prepare(
            resolve(ten, at(2), at(7)),
            context,
            tmp_path,
            cluster=SparkCluster(files=folder.as_uri()),
            application="s3://jobs/app.py",
            conf={"spark.submit.pyFiles": f"s3://jobs/more.zip, {__file__}"},
        )
        assert prepared["application"] == "s3://jobs/app.py"
        assert prepared["py_files"][1] == "s3://jobs/more.zip"
        assert Path(prepared["py_files"][2].removeprefix("file://")).read_bytes() == Path(__file__).read_bytes()
        assert prepared["py_files"][0].startswith("file://")
        (stored,) = folder.rglob("airflow_kafka_offsets.zip")
        stored.write_bytes(b"swapped")
        with pytest.raises(AirflowFailException, match="Delete it") as failed:
            prepare(resolve(ten, at(2), at(7)), context, tmp_path, cluster=SparkCluster(files=folder.as_uri()))
        assert fails_with(LedgerCorruptError, failed)


class TestRefused:
    def test_records_that_are_gone(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, context: Context, tmp_path: Path
    ) -> None:
        window = resolve(ten, at(2), at(7))
        admin.delete_records({TopicPartition(ten, 0): 5})
        with pytest.raises(AirflowFailException, match="3 of 5 offsets") as failed:
            prepare(window, context, tmp_path)
        assert fails_with(DataLossError, failed)

    def test_credentials_are_returned_to_nobody(
        self,
        ten: str,
        resolve: Resolve,
        broker: Broker,
        context: Context,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        window = resolve(ten, at(2), at(7)) | {"kafka_conn_id": "locked"}
        use_connection(monkeypatch, "locked", sasl(broker, "admin", USERS["admin"]))
        with pytest.raises(AirflowFailException, match=r"sasl\.jaas\.config.*gives_credentials=True") as failed:
            prepare(window, context, tmp_path)
        assert fails_with(ConfigurationError, failed)
        assert USERS["admin"] not in str(failed.value)
        prepared = prepare(window, context, tmp_path, cluster=SparkCluster(gives_credentials=True))
        assert USERS["admin"] not in json.dumps(prepared)
        assert "ecret" not in "".join(prepared["conf"])

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"conf": {"spark.kafkaOffsets.attempt": "mine"}}, "can't set spark.kafkaOffsets.attempt"),
            ({"conf": {"spark.kafkaOffsets.kafka.sasl.jaas.config": "x"}}, "sasl.jaas.config: this task's XCom would"),
            ({"conf": {"spark.kafkaOffsets.kafka.ssl.truststore.password": "x"}}, "in KAFKA_OFFSETS_SECRETS"),
            ({"conf": {"spark.kafkaOffsets.secrets": "x"}}, "in KAFKA_OFFSETS_SECRETS"),
            ({"conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}, "keep those of other systems in"),
            (
                {"conf": {"spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "x"}},
                "XCom would show the secret",
            ),
            ({"conf": {"spark.executorEnv.AWS_SECRET_ACCESS_KEY": "x"}}, "XCom would show the secret"),
            ({"conf": {"spark.sql.catalog.lake.credential": "x"}}, "XCom would show the secret"),
            ({"conf": {"spark.submit.pyFiles": "/dev/null"}}, "neither a file"),
            (
                {"conf": {"spark.submit.pyFiles": __file__.replace("test_prepare_load", "windows/__init__")}},
                "is empty",
            ),
            ({"reload": "perhaps"}, "reload must be True or False"),
            ({"application": "/nowhere/app.py"}, "neither a file on this worker nor a URI"),
            (
                {"conf": {"spark.jars.packages": CONNECTOR}, "cluster": SparkCluster(spark_version="3.5.6")},
                "for Spark 4.0 with Scala 2.13",
            ),
            ({"on_data_loss": "ignore"}, "on_data_loss must be 'fail' or 'load_rest'"),
        ],
    )
    def test_arguments_that_make_no_sense(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        ledger: Ledger,
        tmp_path: Path,
        arguments: dict[str, Any],
        said: str,
    ) -> None:
        """Before an attempt begins; if nothing on the worker is needed to tell, when the task is made."""
        window = resolve(ten, at(2), at(7))
        with pytest.raises((AirflowFailException, ConfigurationError), match=re.escape(said)) as failed:
            prepare(window, context, tmp_path, **arguments)
        assert isinstance(failed.value, ConfigurationError) or fails_with(ConfigurationError, failed)
        assert ledger.window(window["window"]).attempts == ()

    def test_a_load_of_another_window(self, ten: str, resolve: Resolve, context: Context, tmp_path: Path) -> None:
        other = prepare(resolve(ten, at(0), at(2)), context, tmp_path)
        verify = KafkaVerifyWindowOperator(task_id="verify", window=resolve(ten, at(2), at(7)), load=other)
        with pytest.raises(AirflowFailException, match="give both from the same run"):
            verify.execute(context)

    @pytest.mark.parametrize("load", [{}, "text", {"version": 9, "load": "x"}])
    def test_verify_takes_what_was_prepared_and_nothing_else(
        self, ten: str, resolve: Resolve, context: Context, load: Any
    ) -> None:
        verify = KafkaVerifyWindowOperator(task_id="verify", window=resolve(ten, at(2), at(7)), load=load)
        with pytest.raises(AirflowFailException, match="what KafkaPrepareLoadOperator returned"):
            verify.execute(context)


@pytest.mark.nightly("drivers of its own; windows/test_prepared_loads.py has verify wait for such")
class TestVerifyWaits:
    async def next_event(self, trigger: KafkaWindowLoadedTrigger) -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("no event")

    def test_for_the_driver_and_hears_of_its_failure_at_once(
        self, ten: str, resolve: Resolve, context: Context, tmp_path: Path, submit: Submit
    ) -> None:
        import asyncio

        window = resolve(ten, at(2), at(7))
        wrong = ["--output", (tmp_path / "out").as_uri(), "--value-format", "json", "schema=no schema at all("]
        prepared = prepare(window, context, tmp_path, application_args=wrong)
        verify = KafkaVerifyWindowOperator(task_id="verify", window=window, load=prepared, deferrable=True)
        with pytest.raises(TaskDeferred) as deferred:
            verify.execute(context)
        assert submit(prepared["submit"]).returncode != 0
        trigger = deferred.value.trigger
        assert isinstance(trigger, KafkaWindowLoadedTrigger)
        event = asyncio.run(self.next_event(KafkaWindowLoadedTrigger(**trigger.serialize()[1])))
        assert event["status"] == "failed"
        assert "value: The schema" in event["message"]
        with pytest.raises(AirflowFailException, match="can't be parsed"):
            verify.execute_complete(context, event)
        with pytest.raises(AirflowFailException, match="can't be parsed"):
            KafkaVerifyWindowOperator(task_id="verify", window=window, load=prepared).execute(context)

    def test_and_another_submission_of_the_load_that_counts_ends_the_wait_well(
        self, ten: str, resolve: Resolve, context: Context, tmp_path: Path, submit: Submit
    ) -> None:
        window = resolve(ten, at(2), at(7))
        prepared = prepare(window, context, tmp_path / "out")
        failing = [*prepared["submit"], "--value-format", "json", "schema=no schema at all("]
        assert submit(failing).returncode != 0
        assert submit(prepared["submit"]).returncode == 0
        verify = KafkaVerifyWindowOperator(task_id="verify", window=window, load=prepared, deferrable=True)
        assert verify.execute(context)["verdict"] == "read = written = log"
