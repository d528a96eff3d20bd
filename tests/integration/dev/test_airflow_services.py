"""A whole Airflow as processes: what tests of sensors, triggers and asset watchers rest on."""

from __future__ import annotations

from dev.airflow_services import AirflowServices


def test_every_service_is_healthy_after_the_start(airflow_services: AirflowServices) -> None:
    services = ("api-server", "scheduler", "dag-processor", "triggerer")
    assert airflow_services.health() == dict.fromkeys(services, True)
    assert airflow_services.trigger_runner_pid in airflow_services.pids()["triggerer"][1:]
