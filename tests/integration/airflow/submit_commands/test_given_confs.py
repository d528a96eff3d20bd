"""What a user's properties file sets: ``spark-submit`` reads it too, and what the operator passes must not undo it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from dev.spark_packages import CONNECTOR
from tests.integration.airflow.conftest import Context, cleared, fails_with
from tests.integration.airflow.submit_commands.conftest import load, spark_connection

DELTA = "io.delta:delta-spark_2.13:4.0.0"
PASSWORD_OF_S3 = "spark.hadoop.fs.s3a.secret.key hunter2"


@pytest.fixture
def defaults(noted: Path, tmp_path: Path) -> Path:
    """The worker's ``spark-defaults.conf``."""
    return tmp_path / "spark-defaults.conf"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark, as far as its jars say which."""
    jars = tmp_path / "home" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.13-4.0.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))


def words_of(noted: Path) -> list[str]:
    words: list[str] = json.loads(noted.read_text().splitlines()[-1])["words"]
    return words


def confs_of(noted: Path) -> dict[str, str]:
    """What was passed with ``--conf``."""
    words = words_of(noted)
    return dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--conf")


def option(noted: Path, name: str) -> str | None:
    words = words_of(noted)
    return words[words.index(name) + 1] if name in words else None


class TestDefaults:
    USERS = (
        *("spark.yarn.maxAppAttempts 3", "spark.kafka.consumer.cache.timeout=1m", "spark.log.level: INFO"),
        *("spark.kafkaOffsets.bytesPerRecord 99", "spark.kafkaOffsets.kafka.client.id users"),
        PASSWORD_OF_S3,
    )

    @pytest.mark.parametrize("named", [False, True], ids=["spark-defaults.conf", "properties_file"])
    def test_of_the_load_leave_out_what_the_file_sets(
        self,
        named: bool,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        defaults: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn")
        file = tmp_path / "own.conf" if named else defaults
        file.write_text("\n".join(self.USERS))
        load(window, durable=False, properties_file=str(file) if named else None).execute(context)
        passed = confs_of(noted)
        left = "yarn.maxAppAttempts", "kafka.consumer.cache.timeout", "log.level", "kafkaOffsets.bytesPerRecord"
        assert not {f"spark.{name}" for name in left} & set(passed)
        assert passed["spark.kafka.consumer.fetchedData.cache.timeout"] == "200ms"
        assert "hunter2" not in " ".join(words_of(noted))

    def test_of_the_reader_too(
        self,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        defaults: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn")
        defaults.write_text("spark.kafkaOffsets.kafka.bootstrap.servers near-spark:9092\n")
        load(window, durable=False).execute(context)
        passed = confs_of(noted)
        assert "spark.kafkaOffsets.kafka.bootstrap.servers" not in passed
        assert passed["spark.kafkaOffsets.kafka.security.protocol"] == "SASL_PLAINTEXT"

    def test_what_the_file_has_in_a_comment_only_isnt_set(
        self,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        defaults: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn")
        defaults.write_text("# spark.log.level INFO\n")
        load(window, durable=False).execute(context)
        assert confs_of(noted)["spark.log.level"] == "WARN"

    def test_a_file_that_isnt_there_is_left_to_spark_submit(
        self, window: dict[str, Any], context: Context, noted: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local"}))
        with pytest.raises(Exception, match="spark-submit ended with status 1"):
            load(window, properties_file="/nowhere/own.conf").execute(context)


class TestGuards:
    def test_a_deploy_mode_in_the_file_is_refused(
        self, window: dict[str, Any], context: Context, defaults: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The driver would run on the cluster, and be taken for one on this worker."""
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
        defaults.write_text("spark.submit.deployMode cluster\n")
        refused(load(window), context, rf"deployMode=cluster .*deploy_mode=.*set in {defaults}")

    def test_a_deploy_mode_in_the_environment_is_refused(
        self, window: dict[str, Any], context: Context, defaults: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """spark-submit takes it if neither its arguments nor its confs have one."""
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
        monkeypatch.setenv("DEPLOY_MODE", "cluster")
        refused(load(window), context, r"deployMode=cluster .*deploy_mode=.*set in the variable DEPLOY_MODE\.")


class TestPackages:
    def packages(self, window: dict[str, Any], context: Context, noted: Path, **arguments: Any) -> str | None:
        task = KafkaSparkSubmitOperator(
            task_id="load",
            window=window,
            durable=False,
            **({"application_args": ["--output", "file:///t"]} | arguments),
        )
        task.execute(context)
        return option(noted, "--packages")

    @pytest.fixture(autouse=True)
    def yarn(self, home: None, monkeypatch: pytest.MonkeyPatch) -> None:
        spark_connection(monkeypatch, "yarn")

    def test_of_the_file_come_along_with_the_connector(
        self, window: dict[str, Any], context: Context, noted: Path, defaults: Path
    ) -> None:
        """With --packages, Spark doesn't read the conf."""
        defaults.write_text(f"spark.jars.packages {DELTA}\n")
        assert self.packages(window, context, noted, connector="auto") == f"{DELTA},{CONNECTOR}"

    def test_of_the_conf_too(self, window: dict[str, Any], context: Context, noted: Path, defaults: Path) -> None:
        conf = {"spark.jars.packages": DELTA}
        assert self.packages(window, context, noted, connector="auto", conf=conf) == f"{DELTA},{CONNECTOR}"

    def test_of_the_task_replace_those_of_the_conf_as_for_spark(
        self, window: dict[str, Any], context: Context, noted: Path, defaults: Path
    ) -> None:
        defaults.write_text("spark.jars.packages org.example:other:1\n")
        assert self.packages(window, context, noted, connector="auto", packages=DELTA) == f"{DELTA},{CONNECTOR}"

    def test_a_connector_that_is_there_isnt_named_twice(
        self, window: dict[str, Any], context: Context, noted: Path, defaults: Path
    ) -> None:
        defaults.write_text(f"spark.jars.packages {CONNECTOR}\n")
        assert self.packages(window, context, noted, connector="auto") == CONNECTOR
        cleared(context)
        assert self.packages(window, context, noted, reload=True) is None, "Spark reads the file"

    @pytest.mark.parametrize("conf", ["spark.jars.packages", "spark.jars"])
    def test_another_sparks_connector_in_the_file_is_refused(
        self, conf: str, window: dict[str, Any], context: Context, defaults: Path
    ) -> None:
        defaults.write_text(f"{conf} /jars/spark-sql-kafka-0-10_2.12-3.5.1.jar\n")
        task = KafkaSparkSubmitOperator(
            task_id="load", window=window, durable=False, application_args=["--output", "file:///t"]
        )
        refused(task, context, r"for Spark 3\.5 with Scala 2\.12")


def refused(task: KafkaSparkSubmitOperator, context: Context, why: str) -> None:
    with pytest.raises(AirflowFailException, match=why) as failed:
        task.execute(context)
    assert fails_with(ConfigurationError, failed)
