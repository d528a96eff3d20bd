"""What older Spark providers lack."""

from __future__ import annotations

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_kafka_offsets.compat.spark_provider import refuse_unfollowed_driver
from airflow_kafka_offsets.errors import ConfigurationError


class TestStandaloneClusters:
    def test_the_installed_provider_asks_the_master(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://m", "port": 7077}')
        refuse_unfollowed_driver(SparkSubmitHook(conn_id="spark_default")._connection)

    def test_one_that_can_not_is_refused_before_anything_runs(self) -> None:
        with pytest.raises(ConfigurationError, match=r"needs apache-airflow-providers-apache-spark 6\.2 or newer"):
            refuse_unfollowed_driver({"master": "spark://m:7077", "deploy_mode": "cluster"})
