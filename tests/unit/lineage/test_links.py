"""Where the links beside a task lead."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from airflow_kafka_offsets.get_provider_info import get_provider_info
from airflow_kafka_offsets.ledger.ledger import PinnedManifest
from airflow_kafka_offsets.lineage.links import SparkUILink, WindowLink, folder_page, history_page
from airflow_kafka_offsets.lineage.task_window import TaskWindow
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator


@pytest.mark.parametrize(
    ("uri", "page"),
    [
        ("s3://lake/k l/w/x", "https://console.aws.amazon.com/s3/buckets/lake?prefix=k%20l/w/x/"),
        ("gs://lake/k/w/x", "https://console.cloud.google.com/storage/browser/lake/k/w/x"),
        ("hdfs://nn:8020/k/w/x", ""),
        ("file:///k/w/x", ""),
    ],
)
def test_a_folder_is_shown_by_its_stores_console_or_not_at_all(uri: str, page: str) -> None:
    assert folder_page(uri) == page


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
    assert history_page(conf, "app-1") == page


class TestOfATask:
    """Airflow asks for them when the task has ended."""

    KEY: Any = None
    ANY: Any = None
    """Not asked for."""

    def test_before_a_task_has_seen_its_window_there_are_none(self) -> None:
        task = KafkaSparkSubmitOperator(task_id="t", window={}, application_args=["--output", "file:///t"])
        assert [link.get_link(task, ti_key=self.KEY) for link in task.operator_extra_links] == ["", ""]

    def test_they_lead_to_what_it_has_seen(self) -> None:
        task = KafkaSparkSubmitOperator(
            task_id="t",
            window={},
            application_args=["--output", "o"],
            conf={"spark.yarn.historyServer.address": "history:18080"},
        )
        task.application_id = "app-1"
        task.seen = TaskWindow(PinnedManifest("s3://lake/k/p/windows/w/0a0a.json", "00", self.ANY))
        assert SparkUILink().get_link(task, ti_key=self.KEY) == "http://history:18080/history/app-1/"
        assert WindowLink().get_link(task, ti_key=self.KEY) == (
            "https://console.aws.amazon.com/s3/buckets/lake?prefix=k/p/windows/w/"
        )


def test_the_provider_names_the_links_of_its_operators() -> None:
    named = [each.rpartition(".") for each in get_provider_info()["extra-links"]]
    classes = {getattr(importlib.import_module(module), name) for module, _, name in named}
    assert classes == {type(each) for each in KafkaSparkSubmitOperator.operator_extra_links}
