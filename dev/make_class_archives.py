"""Makes the class archives: ``python -m dev.make_class_archives`` runs a short Spark application and a broker, and Java
archives the classes that each has used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyspark

from dev import ROOT
from dev.class_archives import FOR_SECONDS, KAFKA, QUIETLY, SPARK
from dev.java import java_home
from dev.kafka import Broker, BrokerSettings
from dev.ports import HOST

_APPLICATION = Path(__file__).with_name("archived_application.py")


def make_spark() -> None:
    """Run Spark once and archive its classes.

    :raises RuntimeError: Spark failed; the message has its output.
    """
    home, draft = Path(pyspark.__file__).parent, _draft(SPARK)
    options = f"{FOR_SECONDS} -XX:ArchiveClassesAtExit={draft} {QUIETLY}"
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--driver-java-options", options]
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "JAVA_HOME": str(java_home())}
    environment["PYTHONPATH"] = str(ROOT)
    said = subprocess.run(
        [*command, str(_APPLICATION)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if said.returncode or not draft.exists():
        raise RuntimeError(f"Spark's classes could not be archived:\n{said.stdout}")
    draft.replace(SPARK)


def make_kafka() -> None:
    """Run a broker once and archive its classes.

    :raises RuntimeError: it didn't start, or wrote no archive.
    """
    KAFKA.unlink(missing_ok=True)  # a Java that uses the archive can't replace it
    draft, options = _draft(KAFKA), os.environ.get("JDK_JAVA_OPTIONS", "")
    with closing(Broker(BrokerSettings(name="archived"))) as broker:
        broker.format()  # another program, whose classes shouldn't be archived
        os.environ["JDK_JAVA_OPTIONS"] = f"-XX:ArchiveClassesAtExit={draft} {QUIETLY}"
        broker.launch()
        os.environ["JDK_JAVA_OPTIONS"] = options
        broker.wait_until_ready()
        broker.stop()
    if not draft.exists():
        raise RuntimeError(f"Kafka's classes could not be archived: see {broker.log_file}")
    draft.replace(KAFKA)


def _draft(archive: Path) -> Path:
    archive.parent.mkdir(exist_ok=True)
    return archive.with_suffix(f".{os.getpid()}")


if __name__ == "__main__":
    print("archiving the classes of Spark and Kafka (half a minute, once)", file=sys.stderr)
    make_spark()
    make_kafka()
