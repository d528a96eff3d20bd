"""The status of a driver on a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.submission.driver import UNKNOWN, DriverStatus
from tests.unit.submission.resource_manager import APPLICATION_ID, ResourceManager, connection_to, resource_manager

RUNNING = DriverStatus("RUNNING", active=True, succeeded=False)
SUCCEEDED = DriverStatus("SUCCEEDED", active=False, succeeded=True)
FAILED = DriverStatus("FAILED", active=False, succeeded=False)
GONE = DriverStatus(UNKNOWN, active=False, succeeded=False)


@pytest.fixture
def yarn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    with resource_manager("RUNNING") as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection_to(manager))
        yield manager


@pytest.fixture
def task(yarn: ResourceManager) -> KafkaSparkSubmitOperator:
    return KafkaSparkSubmitOperator(
        task_id="t", window={}, yarn_track_via_rm_api=True, application_args=["--output", "o"]
    )


@pytest.mark.parametrize(
    ("state", "status"), [("RUNNING", RUNNING), ("FINISHED", SUCCEEDED), ("FAILED", FAILED), ("unknown", GONE)]
)
def test_is_what_the_cluster_says(
    task: KafkaSparkSubmitOperator, yarn: ResourceManager, state: str, status: DriverStatus
) -> None:
    yarn.states = [state]
    assert DriverStatus.of(task, APPLICATION_ID, {}) == status


def test_is_an_error_while_the_cluster_does_not_answer(
    task: KafkaSparkSubmitOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try then fails and submits nothing."""
    with resource_manager("RUNNING") as gone:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection_to(gone))
    with pytest.raises(Exception, match="refused"):
        DriverStatus.of(task, APPLICATION_ID, {})


@pytest.mark.parametrize("status", [RUNNING, SUCCEEDED, GONE])
def test_only_a_driver_that_has_failed_has_a_failure(status: DriverStatus) -> None:
    assert status.failure(APPLICATION_ID) is None
    assert f"Driver {APPLICATION_ID} ended as FAILED" in str(FAILED.failure(APPLICATION_ID))
