"""Class archives (CDS), for Java processes that live for seconds: they spend half of that loading and checking classes.

:mod:`dev.make_class_archives` makes them. If there is no archive, or it is for another Java or other jars, classes are
loaded as usual.
"""

from __future__ import annotations

from dev import LOCAL

SPARK, KAFKA = LOCAL / "spark.jsa", LOCAL / "kafka.jsa"
QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# The optimizing compiler takes half of a short-lived Spark's CPU, and Spark ends before the compiled code has paid off.
# Without that compiler, Java keeps only 48 MB of compiled code. Many queries exceed that, and code is compiled again.
# The room for classes and for new objects is small at first, and Java collects garbage whenever it is full.
FOR_SECONDS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:NewSize=200m"
)
QUICK_START = f"{FOR_SECONDS} -XX:SharedArchiveFile={SPARK} {QUIETLY}"
"""Options for a Java that runs Spark, for the variable ``JDK_JAVA_OPTIONS``."""


def kafka_flags() -> list[str]:
    """Flags for a Java that runs Kafka; none if there is no archive yet."""
    return [f"-XX:SharedArchiveFile={KAFKA}", *QUIETLY.split()] if KAFKA.exists() else []
