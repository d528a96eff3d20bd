"""A driver that derives two tables from a window, and kills itself before one of its steps, Spark included.

Its arguments: jars, the folder of both tables, the step, and as JSON what the driver is told of the window.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from airflow_kafka_offsets.spark import DeltaSink, Derived
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import RunConf
from tests.integration.spark.conftest import make_session
from tests.integration.spark.derived_jobs import per_key, too_high
from tests.integration.spark.sinks.faults import dying


def killed() -> None:
    os.killpg(0, signal.SIGKILL)


def main(jars: str, folder: Path, step: int, told: RunConf) -> None:
    window = PinnedWindow.open(make_session(jars, folder / "warehouse"), told)
    sink, dead = DeltaSink((folder / "hourly").as_uri()), DeltaSink((folder / "high").as_uri())
    with dying(step, sink, dead, die=killed):
        window.write_derived(per_key, sink, too_high=Derived(too_high, dead))


if __name__ == "__main__":
    found, place, number, conf = sys.argv[1:]
    main(found, Path(place), int(number), RunConf(**json.loads(conf)))
