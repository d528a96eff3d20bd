"""An archive of Spark's classes, for Javas that live for seconds: loading and checking them is half of what those do.

``python -m dev.spark_archive`` runs a short Spark application, and Java keeps the classes that it has used in
:data:`ARCHIVE`. A Java with :data:`QUICK_START` takes them from there; where there is no archive, or one of another
Java or another Spark, it loads them as always.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dev import LOCAL, ROOT
from dev.java import java_home
from dev.ports import HOST

ARCHIVE = LOCAL / "spark.jsa"
# The optimizing compiler takes half of the CPU of a Spark that ends before what it has compiled has paid off.
_FOR_SECONDS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_START = f"{_FOR_SECONDS} -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
"""Options of Java, as the variable ``JDK_JAVA_OPTIONS`` takes them."""


def make() -> None:
    """Run Spark once and keep its classes.

    :raises RuntimeError: Spark failed; the message is what it said.
    """
    import pyspark  # here: what only reads the constants needn't wait for it

    home = Path(pyspark.__file__).parent
    ARCHIVE.parent.mkdir(exist_ok=True)
    draft = ARCHIVE.with_suffix(f".{os.getpid()}")
    options = f"{_FOR_SECONDS} -XX:ArchiveClassesAtExit={draft} -Xlog:cds=off -Xlog:cds+dynamic=off"
    command = [
        str(home / "bin" / "spark-submit"),
        "--master",
        "local[1]",
        "--driver-java-options",
        options,
        __file__,
        "use",
    ]
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "JAVA_HOME": str(java_home())}
    environment["PYTHONPATH"] = str(ROOT)
    print("keeping Spark's classes in an archive (half a minute, once)", file=sys.stderr)
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if said.returncode or not draft.exists():
        raise RuntimeError(f"Spark's classes could not be archived:\n{said.stdout}")
    draft.replace(ARCHIVE)


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
    use() if sys.argv[1:] == ["use"] else make()
