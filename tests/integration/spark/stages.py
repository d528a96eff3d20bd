"""What Spark has run, by the stages that it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.kafka.reader import OLDER_SOURCES


@contextmanager
def read_by_the_newer_interface(spark: SparkSession) -> Iterator[None]:
    """Make sure that Kafka is read by it until the block ends, whatever Spark resolves again on the way, and that the
    session stays as it was."""
    before = rdds_of_stages(spark).keys()
    yield
    stages = rdds_of_stages(spark)
    ran = {name for number in stages.keys() - before for name in stages[number]}
    assert "DataSourceRDD" in ran
    assert "KafkaSourceRDD" not in ran
    assert OLDER_SOURCES not in spark.conf.getAll


def rdds_of_stages(spark: SparkSession) -> dict[int, list[str]]:
    """The RDDs of the last stages that Spark has run, as its UI draws them, by number. It forgets those before the last
    thousand.
    """
    context = spark.sparkContext
    no_quantiles = context._gateway.new_array(context._jvm.double, 0)  # type: ignore[union-attr]
    context._jsc.sc().listenerBus().waitUntilEmpty()  # the status is told on another thread, minutes later when busy
    status = context._jsc.sc().statusStore()
    stages = status.stageList(None, False, False, no_quantiles, None)
    numbers = [int(stages.apply(each).stageId()) for each in range(stages.size())]
    return {number: _names(status.operationGraphForStage(number).rootCluster()) for number in numbers}


def _names(cluster: Any) -> list[str]:
    nodes, inner = cluster.childNodes(), cluster.childClusters()
    own = [str(nodes.apply(each).name()) for each in range(nodes.size())]
    return own + [name for each in range(inner.size()) for name in _names(inner.apply(each))]
