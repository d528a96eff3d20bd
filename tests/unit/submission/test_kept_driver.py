"""The driver of an earlier try: what the cluster says of it, and when it is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.submission.driver_status import UNKNOWN, DriverStatus
from airflow_kafka_offsets.submission.kept_driver import KeptDriver
from tests.unit.submission.resource_manager import APPLICATION_ID, ResourceManager, connection_to, resource_manager


class Store(dict[str, Any]):
    """The task state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture
def yarn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    with resource_manager("RUNNING") as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection_to(manager))
        yield manager


@pytest.fixture
def store() -> Store:
    """It knows a driver."""
    return Store(spark_job_id=APPLICATION_ID)


@pytest.fixture
def task(yarn: ResourceManager) -> KafkaSparkSubmitOperator:
    return KafkaSparkSubmitOperator(task_id="t", window={}, yarn_track_via_rm_api=True)


@pytest.fixture
def kept(task: KafkaSparkSubmitOperator, store: Store) -> KeptDriver:
    context: Any = {"task_state_store": store}
    task._driver = KeptDriver(task, context)
    return task._driver


class TestStatus:
    @pytest.mark.parametrize(
        ("state", "status"),
        [
            ("RUNNING", DriverStatus("RUNNING", active=True, succeeded=False)),
            ("FINISHED", DriverStatus("SUCCEEDED", active=False, succeeded=True)),
            ("FAILED", DriverStatus("FAILED", active=False, succeeded=False)),
            ("unknown", DriverStatus(UNKNOWN, active=False, succeeded=False)),
        ],
    )
    def test_is_what_the_cluster_says(
        self, kept: KeptDriver, yarn: ResourceManager, state: str, status: DriverStatus
    ) -> None:
        yarn.states = [state]
        assert kept.status() == status

    def test_is_an_error_while_the_cluster_does_not_answer(
        self, kept: KeptDriver, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The try then fails and submits nothing."""
        with resource_manager("RUNNING") as gone:
            monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection_to(gone))
        with pytest.raises(Exception, match="refused"):
            kept.status()
        assert store == {"spark_job_id": APPLICATION_ID}

    def test_is_asked_of_nobody_where_no_driver_is_known(self, kept: KeptDriver, store: Store) -> None:
        store.clear()
        assert kept.job_id is None

    def test_nor_where_the_task_is_not_durable(self, store: Store, yarn: ResourceManager) -> None:
        context: Any = {"task_state_store": store}
        task = KafkaSparkSubmitOperator(task_id="t", window={}, yarn_track_via_rm_api=True, durable=False)
        assert KeptDriver(task, context).job_id is None


class TestForgetting:
    def test_what_is_forgotten_leaves_nothing_behind(self, kept: KeptDriver, store: Store) -> None:
        store["k8s_driver_status"] = "Succeeded"
        kept.forget()
        assert store == {}

    @pytest.mark.parametrize(("state", "killed"), [("RUNNING", [APPLICATION_ID]), ("FINISHED", []), ("FAILED", [])])
    def test_one_that_runs_in_vain_is_told_to_end(
        self, kept: KeptDriver, yarn: ResourceManager, store: Store, state: str, killed: list[str]
    ) -> None:
        """The window was to be loaded again, say, or another task began to load it since."""
        yarn.states = [state]
        kept.end(kept.status())
        assert (store, yarn.killed) == ({}, killed)

    def test_a_task_that_is_killed_ends_its_driver_and_forgets_it(
        self, task: KafkaSparkSubmitOperator, kept: KeptDriver, store: Store, yarn: ResourceManager
    ) -> None:
        """It may be seen running for a while still."""
        yarn.states = ["FINISHED"]
        task.poll_until_complete(APPLICATION_ID, kept.context)
        task.on_kill()
        assert yarn.killed == [APPLICATION_ID]
        assert store == {}

    def test_a_store_that_is_out_of_reach_then_is_logged(
        self, task: KafkaSparkSubmitOperator, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class OutOfReach(Store):
            def delete(self, key: str) -> None:
                raise ConnectionError(key)

        context: Any = {"task_state_store": OutOfReach()}
        task._driver = KeptDriver(task, context)
        task.on_kill()
        assert "so the next try may wait for it" in capsys.readouterr().out
