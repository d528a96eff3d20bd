"""What Spark's driver is not to say in the log of a load that Airflow watches."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_LISTENER = "org.apache.spark.sql.execution.ui.SQLAppStatusListener"


def metrics_unsaid(spark: SparkSession) -> None:
    """Have Spark keep to itself that it can't load the classes of its Kafka source's metrics.

    Whoever opens the page of a running query in Spark's UI, as Airflow does for the progress, has the driver sum up the
    metrics. The UI's threads look for their classes by Java's own class loader, which knows nothing of ``--packages``
    and ``--jars``, so that each is a warning with seventy lines of stack trace; the page comes all the same. Errors are
    still told. Spark's own log is one of Log4j 2; where somebody has put another in its place, it is left as it is.
    """
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    try:
        if log4j.LogManager.getLogger(_LISTENER).isWarnEnabled():
            log4j.core.config.Configurator.setLevel(_LISTENER, log4j.Level.ERROR)
    except TypeError:  # there is no such class
        return
