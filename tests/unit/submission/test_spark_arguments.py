"""What is submitted in the place of a task's own arguments."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.submission.spark_arguments import SparkArguments


class TestHook:
    @pytest.fixture
    def task(self, monkeypatch: pytest.MonkeyPatch) -> KafkaSparkSubmitOperator:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local"}))
        users = {"spark.users": "users", "spark.default": "users", "spark.pinned": "users"}
        return KafkaSparkSubmitOperator(task_id="t", window={}, application="load.py", conf=users, py_files="users.py")

    @pytest.fixture
    def given(self) -> SparkArguments:
        return SparkArguments(
            defaults={"spark.default": "ours", "spark.other": "ours"},
            confs={"spark.pinned": "ours"},
            properties_file="ours.properties",
            py_files="users.py,ours.zip",
            packages="org:connector:1",
            jars="/ours/a.jar",
        )

    def test_has_the_users_confs_over_the_defaults_and_under_what_the_window_decides(
        self, task: KafkaSparkSubmitOperator, given: SparkArguments
    ) -> None:
        confs = {"spark.users": "users", "spark.default": "users", "spark.pinned": "ours", "spark.other": "ours"}
        assert given.hook(task)._conf == confs

    def test_has_the_confs_that_the_task_got_meanwhile(
        self, task: KafkaSparkSubmitOperator, given: SparkArguments
    ) -> None:
        """The provider adds those of OpenLineage before it asks for the hook."""
        task.conf = {"spark.openlineage.parentRunId": "1"}
        assert given.hook(task)._conf["spark.openlineage.parentRunId"] == "1"

    def test_the_task_keeps_its_own_arguments(self, task: KafkaSparkSubmitOperator, given: SparkArguments) -> None:
        names = ("application", "conf", "properties_file", "py_files", "packages", "jars")
        before = {name: getattr(task, name) for name in names}
        hook = given.hook(task)
        assert (hook._py_files, hook._packages, hook._jars) == ("users.py,ours.zip", "org:connector:1", "/ours/a.jar")
        assert {name: getattr(task, name) for name in names} == before
