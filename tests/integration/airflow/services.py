"""A whole Airflow for all integration tests that ask for it: services as processes, one start a session."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.airflow_services import AirflowServices
from dev.kafka import Broker
from tests.endings import end_with_unit


@pytest.fixture(scope="session")
def airflow_services(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[AirflowServices]:
    """The services of this session. Tests write Dag files of their own into ``dags_folder``, each Dag id once.

    Modules below the repository's root, such as a test's own trigger classes, can be imported by all services. Their
    connection ``kafka_default`` reaches the session's broker, and their ``spark-submit`` has nothing to do.
    """
    end_with_unit(request)
    home: Path = tmp_path_factory.mktemp("airflow-services")
    spark_submit = home / "bin" / "spark-submit"
    spark_submit.parent.mkdir()
    spark_submit.write_text("#!/bin/sh\n")
    spark_submit.chmod(0o755)
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    environment = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT": (home / "ledger").as_uri(),
        "AIRFLOW__KAFKA_OFFSETS__PAGE_KAFKA_CONN_ID": "kafka_default",
        "PATH": f"{spark_submit.parent}{os.pathsep}{os.environ['PATH']}",
    }
    with AirflowServices(home, environment) as running:
        yield running
