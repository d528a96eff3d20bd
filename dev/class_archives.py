"""Archives of classes, for Javas that live for seconds: loading and checking them is half of what those do.

``python -m dev.class_archives`` runs a short Spark application and a broker, and Java keeps the classes that each has
used. Where there is no archive, or one of another Java or other jars, classes are loaded as always.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from dev import LOCAL, ROOT
from dev.java import java_home
from dev.ports import HOST

SPARK, KAFKA = LOCAL / "spark.jsa", LOCAL / "kafka.jsa"
_QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# The optimizing compiler takes half of the CPU of a Spark that ends before what it has compiled has paid off.
# Without native code Hadoop starts a chmod for every file and folder, each by a program of its own if not by vfork.
_FOR_SECONDS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
QUICK_START = f"{_FOR_SECONDS} -XX:SharedArchiveFile={SPARK} {_QUIETLY}"
"""Options of a Java that runs Spark, as the variable ``JDK_JAVA_OPTIONS`` takes them."""


def kafka_flags() -> list[str]:
    """Flags of a Java that runs Kafka; none before there is an archive."""
    return [f"-XX:SharedArchiveFile={KAFKA}", *_QUIETLY.split()] if KAFKA.exists() else []


def make_spark() -> None:
    """Run Spark once and keep its classes.

    :raises RuntimeError: Spark failed; the message is what it said.
    """
    import pyspark  # here: what only reads the constants needn't wait for it

    home, draft = Path(pyspark.__file__).parent, _draft(SPARK)
    options = f"{_FOR_SECONDS} -XX:ArchiveClassesAtExit={draft} {_QUIETLY}"
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--driver-java-options", options]
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "JAVA_HOME": str(java_home())}
    environment["PYTHONPATH"] = str(ROOT)
    said = subprocess.run(
        [*command, __file__, "use"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if said.returncode or not draft.exists():
        raise RuntimeError(f"Spark's classes could not be archived:\n{said.stdout}")
    draft.replace(SPARK)


def make_kafka() -> None:
    """Run a broker once and keep its classes.

    :raises RuntimeError: it didn't start, or left none.
    """
    from dev.kafka import Broker, BrokerSettings  # here: they use the archive

    KAFKA.unlink(missing_ok=True)  # a Java that takes classes from it can't make it anew
    draft, options = _draft(KAFKA), os.environ.get("JDK_JAVA_OPTIONS", "")
    with closing(Broker(BrokerSettings(name="archived"))) as broker:
        broker.format()  # another program, whose classes aren't meant
        os.environ["JDK_JAVA_OPTIONS"] = f"-XX:ArchiveClassesAtExit={draft} {_QUIETLY}"
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


def use() -> None:
    """What a load does, on a handful of rows: files written and read, a shuffle, an observation, a Python worker."""
    from pyspark.sql import Observation, SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for format_ in ("parquet", "json", "orc"):
            rows = spark.range(10).withColumn("name", F.udf(str)("id"))
            rows.observe(Observation(), F.count("*")).write.format(format_).save(f"{folder}/{format_}")
            spark.read.format(format_).load(f"{folder}/{format_}").groupBy("name").agg(F.max("id")).collect()
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["use"]:
        use()
    else:
        print("keeping the classes of Spark and Kafka in archives (half a minute, once)", file=sys.stderr)
        make_spark()
        make_kafka()
