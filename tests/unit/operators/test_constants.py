"""Constants are checked when a Dag is parsed, and templates when they are rendered: one rule for all tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_kafka_offsets import (
    AuditedTable,
    KafkaAuditTableOperator,
    KafkaCommitOffsetsOperator,
    KafkaGroupLagSensor,
    KafkaLagAlertOperator,
    KafkaNewDataSensor,
    KafkaOffsetSnapshotOperator,
    KafkaOffsetsReachedSensor,
    KafkaPipeline,
    KafkaPrepareLoadOperator,
    KafkaResetOffsetsOperator,
    KafkaResolveIncrementOperator,
    KafkaResolveWindowOperator,
    KafkaRetentionWatchOperator,
    KafkaSparkSubmitOperator,
    KafkaVerifyWindowOperator,
    KafkaWindowCompleteSensor,
    TableLoad,
    kafka_window_load,
)
from airflow_kafka_offsets.errors import ConfigurationError

ORDERS = KafkaPipeline("orders", "orders")
ORDERS_TABLE = AuditedTable(table="lake.orders")
TABLE = {"application": TableLoad("file:///lake/orders")}
WINDOW = "{{ ti.xcom_pull('resolve') }}"
TEMPLATE = "{{ params.given }}"

WRONG: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any], str]] = [
    (KafkaPipeline, {"name": "orders"}, {"name": "orders/hourly"}, "A pipeline's name"),
    (KafkaPipeline, {"name": "orders"}, {"topics": ""}, "topics must be a name"),
    (KafkaPipeline, {"name": "orders", "topics": "orders"}, {"topic_pattern": "or.*"}, "exactly one of them"),
    (KafkaPipeline, {"name": "orders"}, {"topic_pattern": "("}, "not a regular expression"),
    (KafkaPipeline, {"name": "orders"}, {"isolation_level": "serializable"}, "isolation_level must be"),
    (KafkaPipeline, {"name": "orders"}, {"kafka_conn_id": ""}, "kafka_conn_id must be a name"),
    (KafkaResolveWindowOperator, {"pipeline": ORDERS}, {"start": "2026-11-20T06:00Z"}, "go together"),
    (KafkaResolveWindowOperator, {"pipeline": ORDERS}, {"start": "six", "end": "2026-11-20T06:00Z"}, "not an instant"),
    (KafkaResolveWindowOperator, {"pipeline": ORDERS}, {"on_future_record": "ignore"}, "on_future_record must be"),
    (KafkaResolveIncrementOperator, {"pipeline": ORDERS}, {"since": "yesterday"}, "not an instant"),
    (KafkaOffsetSnapshotOperator, {"pipeline": ORDERS}, {"at": "noon"}, "not an instant"),
    (KafkaOffsetSnapshotOperator, {"pipeline": ORDERS, "at": "earliest"}, {"group": "g"}, "drop group= or at="),
    (KafkaSparkSubmitOperator, TABLE, {"window": "resolve"}, "takes what KafkaResolveWindowOperator returned"),
    (KafkaSparkSubmitOperator, TABLE | {"window": WINDOW}, {"connector": "latest"}, "connector must be 'auto'"),
    (KafkaSparkSubmitOperator, TABLE | {"window": WINDOW}, {"reload": "perhaps"}, "reload must be True or False"),
    (KafkaSparkSubmitOperator, TABLE | {"window": WINDOW}, {"on_data_loss": "skip"}, "on_data_loss must be"),
    (KafkaPrepareLoadOperator, TABLE | {"window": WINDOW}, {"on_data_loss": "skip"}, "on_data_loss must be"),
    (KafkaPrepareLoadOperator, TABLE | {"window": WINDOW}, {"conf": {"spark.kafkaOffsets.sha256": "x"}}, "can't set"),
    (KafkaSparkSubmitOperator, {"window": WINDOW}, {}, "has no output"),
    (KafkaVerifyWindowOperator, {"window": WINDOW}, {"on_hole": "ignore"}, "on_hole must be"),
    (KafkaVerifyWindowOperator, {"window": WINDOW}, {"timeout": "a day"}, "timeout must be a timedelta"),
    (KafkaCommitOffsetsOperator, {"window": WINDOW}, {"group": ""}, "group must be a name"),
    (KafkaCommitOffsetsOperator, {"window": WINDOW, "group": "g"}, {"on_hole": "ignore"}, "on_hole must be"),
    (KafkaResetOffsetsOperator, {"group": "g"}, {"to": "the end"}, "is none of latest"),
    (KafkaResetOffsetsOperator, {"group": "g", "to": "latest"}, {"isolation_level": "none"}, "isolation_level must be"),
    (KafkaRetentionWatchOperator, {"pipeline": ORDERS}, {"fail_within": "2h"}, "fail_within must be a timedelta"),
    (KafkaRetentionWatchOperator, {"pipeline": ORDERS}, {"on_unknown": "ignore"}, "on_unknown must be"),
    (KafkaAuditTableOperator, {"window": WINDOW}, {"table": "lake.orders"}, "takes an AuditedTable"),
    (KafkaAuditTableOperator, {"window": WINDOW}, {"table": AuditedTable("s3://lake")}, "format= goes with path="),
    (KafkaAuditTableOperator, {"window": WINDOW, "table": ORDERS_TABLE}, {"on_incomplete": "ignore"}, "on_incomplete"),
    (KafkaLagAlertOperator, {"groups": "g"}, {"fail_on": "asleep"}, "fail_on must be"),
    (KafkaLagAlertOperator, {"groups": "g"}, {"max_lag": -1}, "max_lag must be a whole number"),
    (KafkaLagAlertOperator, {"groups": "g"}, {"fail_on": ()}, "nothing to alert on"),
    (KafkaGroupLagSensor, {}, {"groups": []}, "groups must be a name"),
    (KafkaGroupLagSensor, {"groups": "g"}, {"max_lag": -1}, "max_lag must be a whole number"),
    (KafkaGroupLagSensor, {"groups": "g"}, {"isolation_level": "none"}, "isolation_level must be"),
    (KafkaOffsetsReachedSensor, {"group": "g"}, {"target": "the end"}, "target= takes what"),
    (KafkaNewDataSensor, {"pipeline": ORDERS}, {"min_records": 0}, "min_records must be"),
    (KafkaNewDataSensor, {}, {"pipeline": KafkaPipeline("orders", topic_pattern="or.*")}, "needs its topics by name"),
    (KafkaWindowCompleteSensor, {"pipeline": ORDERS}, {"idle": "assume_after"}, "needs idle_after="),
    (KafkaWindowCompleteSensor, {"pipeline": ORDERS}, {"idle": "never"}, "idle must be"),
    (kafka_window_load, {"pipeline": "orders", "topics": "orders"}, {"idle": "fail"}, "needs idle_after="),
    (kafka_window_load, {"topics": "orders"}, {"pipeline": "orders hourly"}, "A pipeline's name"),
]
TEMPLATED: list[tuple[type[Any], dict[str, Any]]] = [
    (KafkaResolveWindowOperator, {"pipeline": ORDERS, "start": TEMPLATE, "end": "{% if x %}{% endif %}"}),
    (KafkaResolveIncrementOperator, {"pipeline": ORDERS, "since": TEMPLATE}),
    (KafkaOffsetSnapshotOperator, {"pipeline": ORDERS, "at": TEMPLATE}),
    (KafkaOffsetSnapshotOperator, {"pipeline": ORDERS, "group": TEMPLATE}),
    (KafkaSparkSubmitOperator, TABLE | {"window": WINDOW, "reload": TEMPLATE}),
    (
        KafkaPrepareLoadOperator,
        TABLE | {"window": WINDOW, "reload": TEMPLATE, "conf": {"spark.executor.memory": TEMPLATE}},
    ),
    (KafkaCommitOffsetsOperator, {"window": WINDOW, "group": TEMPLATE}),
    (KafkaResetOffsetsOperator, {"group": TEMPLATE, "to": TEMPLATE, "topics": [TEMPLATE]}),
    (KafkaAuditTableOperator, {"window": WINDOW, "table": AuditedTable(table=TEMPLATE, preset=TEMPLATE)}),
    (KafkaLagAlertOperator, {"groups": TEMPLATE, "topics": TEMPLATE, "isolation_level": TEMPLATE}),
    (KafkaGroupLagSensor, {"groups": [TEMPLATE], "topics": TEMPLATE, "isolation_level": TEMPLATE}),
    (KafkaOffsetsReachedSensor, {"group": TEMPLATE, "target": TEMPLATE}),
    (KafkaWindowCompleteSensor, {"pipeline": KafkaPipeline(TEMPLATE, TEMPLATE, isolation_level=TEMPLATE)}),
]


def made(kind: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    own = {} if kind in (KafkaPipeline, kafka_window_load) else {"task_id": "t"}
    with DAG("d", schedule=None):
        return kind(**own, **arguments)


@pytest.mark.parametrize(("kind", "right", "wrong", "said"), WRONG)
def test_a_wrong_constant_is_refused_where_the_task_is_made(
    kind: Callable[..., Any], right: dict[str, Any], wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made(kind, right | wrong)


@pytest.mark.parametrize(("kind", "arguments"), TEMPLATED)
def test_a_template_is_left_to_the_running_task(kind: type[Any], arguments: dict[str, Any]) -> None:
    assert made(kind, arguments).task_id == "t"


def test_what_another_task_returns_is_a_template() -> None:
    with DAG("d", schedule=None):
        resolve = KafkaResolveWindowOperator(task_id="resolve", pipeline=ORDERS)
        reset = KafkaResetOffsetsOperator(task_id="reset", group="g", to=resolve.output)
        commit = KafkaCommitOffsetsOperator(task_id="commit", window=resolve.output, group=resolve.output["group"])
    assert resolve.downstream_task_ids == {reset.task_id, commit.task_id}
