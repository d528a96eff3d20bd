"""The alert on groups, on a real broker: one table of what is wrong, whatever else is unknown."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.errors import ClusterUnreachableError
from airflow_kafka_offsets.operators.alerts import KafkaLagAlertOperator
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, Context, use_connection

Alert = Callable[..., dict[str, Any]]


@pytest.fixture
def xcom(context: Context) -> dict[str, Any]:
    """What the task pushed, in the last run or this one; Airflow's own is used where Airflow runs the task."""
    kept: dict[str, Any] = {}
    context["ti"] = SimpleNamespace(
        task_id="alert",
        map_index=-1,
        xcom_push=kept.__setitem__,
        xcom_pull=lambda *, key, **_: kept.get(key),
    )
    return kept


@pytest.fixture
def alert(broker: Broker, context: Context, xcom: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Alert:
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": broker.bootstrap_servers})

    def run(**arguments: Any) -> dict[str, Any]:
        return KafkaLagAlertOperator(task_id="alert", **arguments).execute(context)["groups"]

    return run


def test_one_table_names_each_group_with_what_is_wrong_and_no_other(
    ten: str, commit: Commit, alert: Alert, xcom: dict[str, Any]
) -> None:
    done, behind, missing = (f"{name}-{ten}" for name in ("done", "behind", "missing"))
    commit(done, ten, 10)
    commit(behind, ten, 4)
    assert alert(groups=done, max_lag=0) == {done: {"alarms": [], "lag": 0}}
    with pytest.raises(AirflowFailException) as failed:
        alert(groups=[done, behind, missing], topics=ten, max_lag=5)
    title, _, *rows = str(failed.value).splitlines()
    assert title == "2 of 3 groups need attention:"
    assert rows[0].split() == [behind, "lag", *f"is 6 behind ({ten}-0 6)".split()]
    assert rows[1].startswith(missing)
    assert "unknown" in rows[1]
    assert "doesn't exist (GROUP_ID_NOT_FOUND)" in rows[1]
    assert {group: each["alarms"] for group, each in xcom["return_value"]["groups"].items()} == {
        done: [],
        behind: ["lag"],
        missing: ["unknown"],
    }


def test_no_broker_is_retried(alert: Alert, monkeypatch: pytest.MonkeyPatch) -> None:
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "2")
    with pytest.raises(ClusterUnreachableError):
        alert(groups="g", max_lag=0)
