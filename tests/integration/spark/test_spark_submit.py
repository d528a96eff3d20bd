"""The load as Airflow submits it: spark-submit, a zip of four parts of the package, and nothing else installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import airflow_kafka_offsets
from airflow_kafka_offsets.ledger.counted import counted as counted_by
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.published import read_published
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.submission.application import bundle
from tests.integration.ledger.loads import publish_asked
from tests.integration.spark.conftest import Pin
from tests.integration.spark.test_pinned_window import offsets

PACKAGE = Path(airflow_kafka_offsets.__file__).parent
LOAD = PACKAGE / "spark" / "load.py"
SLOW_LOAD = Path(__file__).with_name("slow_load.py")
EXPECTED = {0: list(range(10, 90)), 2: list(range(125))}

Submit = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without any package: spark-submit brings pyspark, the zip brings the rest."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    for name in ("airflow", "kafka", "airflow_kafka_offsets"):
        assert subprocess.run([python, "-c", f"import {name}"], cwd=folder, stderr=subprocess.DEVNULL).returncode
    return str(python)


@pytest.fixture(scope="module")
def py_files(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("zip") / "airflow_kafka_offsets.zip"
    target.write_bytes(bundle())
    return str(target)


@pytest.fixture
def submit(connector: str, bare_python: str, py_files: str, tmp_path: Path) -> Iterator[Submit]:
    """Start spark-submit as the operator does; what is still running in the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(  # type: ignore[no-untyped-def]
        told: RunConf,
        application: Path,
        *arguments: str,
        secrets: Mapping[str, str] | None = None,
        jars: str | None = connector,
    ):
        confs = {
            "manifest": told.manifest_uri,
            "sha256": told.sha256,
            "attempt": told.attempt,
            "kafka.bootstrap.servers": told.kafka["kafka.bootstrap.servers"],
        }
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
        command += ["--jars", jars] if jars else []
        command += ["--py-files", py_files, "--conf", "spark.ui.enabled=false"]
        for name, value in confs.items():
            command += ["--conf", f"spark.kafkaOffsets.{name}={value}"]
        environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME") if name in os.environ}
        environment |= {"PYSPARK_PYTHON": bare_python, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"KAFKA_OFFSETS_SECRETS": json.dumps(secrets)} if secrets else {}
        process = subprocess.Popen(
            [*command, str(application), *arguments],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


class TestLoad:
    @pytest.mark.nightly("a driver of its own; airflow/test_example_dags.py has a task submit this application")
    def test_loads_the_window_and_ends_with_one_line_of_json(
        self,
        spark: SparkSession,
        submit: Submit,
        pin: Pin,
        manifest: Manifest,
        ledger_uri: str,
        our_ledger: Ledger,
        table: str,
    ) -> None:
        told = pin(manifest)
        process = submit(
            told,
            LOAD,
            "--output",
            table,
            "--key-format",
            "string",
            "--value-format",
            "json",
            "schema=icao24 STRING, altitude_m INT",
        )
        stdout, stderr = process.communicate()

        assert process.returncode == 0, stderr
        ended = json.loads(stdout.strip().splitlines()[-1])
        assert (ended["attempt"], ended["rows"]) == (told.attempt, 205)
        output = f"{table}/window={manifest.window}/attempt={told.attempt}-{ended['run']}"
        assert (ended["window"], ended["outputs"]) == (manifest.window, [output])
        (counted,) = counted_by(our_ledger, our_ledger.window(manifest.window), ended["attempt"])
        assert counted.result.run == ended["run"]
        publish_asked(counted)
        rows = read_published(spark, ledger_uri)
        assert offsets(rows) == EXPECTED
        assert rows.where("value.altitude_m = offset AND key = CAST(offset % 7 AS STRING)").count() == 205

    @pytest.mark.nightly("a driver of its own; the first test loads a window by one")
    def test_without_sparks_kafka_connector_it_names_the_package_and_fails_at_once(
        self, submit: Submit, pin: Pin, manifest: Manifest, table: str, our_ledger: Ledger
    ) -> None:
        told = pin(manifest)
        assert told.attempt is not None
        process = submit(told, LOAD, "--output", table, jars=None)
        stdout, stderr = process.communicate()

        log = stdout + stderr
        said = (
            "ConfigurationError: Spark's Kafka connector is missing: give KafkaSparkSubmitOperator connector='auto', "
            f"or add org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__} to packages="
        )
        assert f"kafka-offsets-load: {said}" in log
        assert "Traceback" not in log
        note = our_ledger.attempt(manifest.window, told.attempt).failure()
        assert note is not None
        assert note.is_permanent
        assert str(note.as_error()).startswith(said)
