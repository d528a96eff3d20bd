"""The jars of the demo: Kafka's, and those of Spark's connector in the Ivy cache that the demo's loads use.

``python -m dev.demo_jars`` fetches them while packages are still installed, with nothing but PySpark. What is missing
later, whatever the reason, is fetched by what needs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dev.airflow_home import spark_settings
from dev.java import java_home
from dev.kafka_program import KAFKA_VERSION, jars_of
from dev.spark_packages import CONNECTOR

_ENDS_AT_ONCE = ("--class", "org.apache.hadoop.util.VersionInfo", "spark-internal")


def main() -> int:
    """Fetch both side by side; they have separate caches. Returns the exit code."""
    programs = Path(sys.executable).parent
    environment = os.environ | spark_settings(programs.parent) | {"JAVA_HOME": str(java_home())}
    environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    command = [str(programs / "spark-submit"), "--packages", CONNECTOR, *_ENDS_AT_ONCE]
    connector = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    jars_of(KAFKA_VERSION)
    said, _ = connector.communicate()
    if connector.returncode != 0:
        print(said, file=sys.stderr)
    return connector.returncode


if __name__ == "__main__":
    sys.exit(main())
