"""Archives of classes, for Javas that live for seconds: loading and checking them is half of what those do.

:mod:`dev.make_class_archives` makes them. Where there is no archive, or one of another Java or other jars, classes are
loaded as always.
"""

from __future__ import annotations

from dev import LOCAL

SPARK, KAFKA = LOCAL / "spark.jsa", LOCAL / "kafka.jsa"
QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# The optimizing compiler takes half of the CPU of a Spark that ends before what it has compiled has paid off. Without
# it Java keeps no more than 48 MB of compiled code, which many queries fill: what falls out is compiled again.
FOR_SECONDS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
QUICK_START = f"{FOR_SECONDS} -XX:SharedArchiveFile={SPARK} {QUIETLY}"
"""Options of a Java that runs Spark, as the variable ``JDK_JAVA_OPTIONS`` takes them."""


def kafka_flags() -> list[str]:
    """Flags of a Java that runs Kafka; none before there is an archive."""
    return [f"-XX:SharedArchiveFile={KAFKA}", *QUIETLY.split()] if KAFKA.exists() else []
