"""A separate Airflow under ``.local/``: SQLite, the example Dags, and connections to the local broker and Spark.

Set its environment before Airflow is first imported, because Airflow reads it then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dev import LOCAL, ROOT
from dev.java import java_home


def environment(home: Path, bootstrap_servers: str | None = None) -> dict[str, str]:
    """The environment that Airflow and its tasks run in.

    :param home: the folder for everything that Airflow, the ledger and Spark create.
    :param bootstrap_servers: the broker of the connection ``kafka_default``; None for no such connection.
    """
    found = {
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow' / 'airflow.db'}",
        "AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT": (home / "ledger").as_uri(),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_VAR_FLIGHTS_OUTPUT": (home / "output" / "flights").as_uri(),
        "JAVA_HOME": str(java_home()),
        **spark_settings(home),
        # Use this environment's spark-submit, and its Python for Spark's workers.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "NO_COLOR": "1",
    }
    if bootstrap_servers is not None:
        extra = {"bootstrap.servers": bootstrap_servers}
        found["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
        found["AIRFLOW__KAFKA_OFFSETS__PAGE_KAFKA_CONN_ID"] = "kafka_default"
    return found


def spark_settings(home: Path) -> dict[str, str]:
    """Spark's settings: jars are downloaded once for all runs, and nothing is left outside ``.local/``.

    They aren't in a ``spark-defaults.conf``, because with its folder on the classpath before Spark's jars, Java doesn't
    use the class archive.
    """
    properties = {
        "ivy.home": LOCAL / "spark-ivy",  # separate from that of dev.jars: they don't lock it against each other
        "spark.sql.warehouse.dir": home / "spark" / "warehouse",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    return {
        "SPARK_SUBMIT_OPTS": " ".join(f"-D{name}={value}" for name, value in properties.items()),
        "SPARK_LOCAL_DIRS": str(home / "spark" / "scratch"),
        "SPARK_DRIVER_MEMORY": "1g",
    }


def start_migration(variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start creating or upgrading Airflow's database in another process. Wait for it before using Airflow."""
    Path(variables["AIRFLOW_HOME"]).mkdir(parents=True, exist_ok=True)
    log = Path(variables["AIRFLOW_HOME"]) / "migrate.log"
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    with log.open("wb") as file:
        return subprocess.Popen(command, env=os.environ | dict(variables), stdout=file, stderr=subprocess.STDOUT)


@contextmanager
def output_to(log: Path) -> Iterator[None]:
    """Redirect the output of this process and its children to a file. Tasks that run in-process print their logs."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
