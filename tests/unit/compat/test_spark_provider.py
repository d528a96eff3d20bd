"""What older Spark providers lack."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_kafka_offsets.compat.spark_provider import refuse_unfollowed_driver
from airflow_kafka_offsets.errors import ConfigurationError


def connection(monkeypatch: pytest.MonkeyPatch, host: str) -> dict[str, Any]:
    """Of a hook of the installed provider."""
    fields = {"conn_type": "spark", "host": host, "port": 7077, "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(fields))
    return SparkSubmitHook(conn_id="spark_default")._connection


class TestStandaloneClusters:
    def test_the_installed_provider_asks_the_master(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refuse_unfollowed_driver(connection(monkeypatch, "spark://m"))

    @pytest.mark.parametrize("lacks", [{}, {"rest_port": 6066}], ids=["6.1", "6.2 to 6.3.3"])
    def test_one_that_can_not_is_refused_before_anything_runs(self, lacks: dict[str, int]) -> None:
        with pytest.raises(ConfigurationError, match=r"needs apache-airflow-providers-apache-spark 6\.3\.4 or newer"):
            refuse_unfollowed_driver({"master": "spark://m:7077", "deploy_mode": "cluster", **lacks})

    def test_so_are_several_masters_about_whose_drivers_none_can_be_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(ConfigurationError, match=r"can't ask spark://m,n:7077 about a driver.*name one master"):
            refuse_unfollowed_driver(connection(monkeypatch, "spark://m,n"))
