"""A whole Airflow whose database is PostgreSQL, for Dags with a hundred tasks and several runs at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.airflow_services import AirflowServices
from dev.kafka import Broker
from dev.postgres import Postgres
from tests.integration.airflow.conftest import LOCAL_SPARK


@contextmanager
def airflow_on_postgres(home: Path, broker: Broker) -> Iterator[AirflowServices]:
    """The services, until the block ends. Their connection ``kafka_default`` reaches the broker.

    :param home: an empty folder.
    """
    _import_once(home)
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    environment = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": LOCAL_SPARK,
        "AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT": (home / "ledger").as_uri(),
        "AIRFLOW__CORE__PARALLELISM": "8",
    }
    with Postgres() as database, AirflowServices(home, environment, database.url) as airflow:
        yield airflow


def _import_once(home: Path) -> None:
    """Have the scheduler import what a hundred tasks need, which it forks."""
    settings = home / "airflow" / "config" / "airflow_local_settings.py"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        "import airflow_kafka_offsets.operators.commits, airflow_kafka_offsets.task_groups\nimport confluent_kafka\n"
    )
