"""Where the links beside a task lead."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets.get_provider_info import get_provider_info
from airflow_kafka_offsets.lineage.links import SparkUILink
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

KEY: Any = None
"""Not asked for."""


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("history:18080", "http://history:18080/history/app-1/"),
        ("https://history.example.com/", "https://history.example.com/history/app-1/"),
        (None, ""),
    ],
)
def test_an_application_that_has_ended_is_on_the_history_server_that_spark_is_told_of(
    address: str | None, page: str
) -> None:
    conf = {} if address is None else {"spark.yarn.historyServer.address": address}
    operator: Any = SimpleNamespace(conf=conf, application_id="app-1")
    assert SparkUILink().get_link(operator, ti_key=KEY) == page


def test_before_a_task_has_seen_its_window_there_are_none() -> None:
    task = KafkaSparkSubmitOperator(task_id="t", window={}, application_args=["--output", "file:///t"])
    assert [link.get_link(task, ti_key=KEY) for link in task.operator_extra_links] == ["", ""]


def test_the_provider_names_the_links_of_its_operators() -> None:
    named = [each.rpartition(".") for each in get_provider_info()["extra-links"]]
    classes = {getattr(importlib.import_module(module), name) for module, _, name in named}
    assert classes == {type(each) for each in KafkaSparkSubmitOperator.operator_extra_links}
