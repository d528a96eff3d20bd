"""Which Kafka connector goes with a Spark."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.release import SparkRelease, names_connector, packages_in, usual_scala

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1"
DELTA = "io.delta:delta-spark_2.12:3.2.1"


@pytest.mark.parametrize(("version", "scala"), [("3.5.6", "2.12"), ("4.0.0", "2.13"), ("4.1.0-amzn-0", "2.13")])
def test_the_connector_is_for_the_scala_that_spark_is_built_with(version: str, scala: str) -> None:
    assert usual_scala(version) == scala
    assert SparkRelease("3.5.1", "2.12").package("kafka") == CONNECTOR


def test_it_comes_after_the_users_packages_once() -> None:
    release = SparkRelease("3.5.1", "2.12")
    assert release.with_packages([], packages_in(f"{DELTA}, "), None) == [DELTA, CONNECTOR]
    assert release.with_packages([], [CONNECTOR, DELTA], None) == [CONNECTOR, DELTA]
    assert release.with_packages([], packages_in(None), None) == [CONNECTOR]


class TestRefuseOther:
    @pytest.mark.parametrize(
        "named",
        [
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
            "io.delta:delta-spark_2.13:4.0.0, org.apache.spark:spark-sql-kafka-0-10_2.12:4.0.0",
            "/jars/spark-sql-kafka-0-10_2.12-3.5.1.jar",
        ],
    )
    def test_a_connector_of_another_spark_or_scala_is_named_with_the_right_one(self, named: str) -> None:
        with pytest.raises(ConfigurationError) as refused:
            SparkRelease("4.0.0", "2.13").refuse_other(None, named)
        assert "the load runs on Spark 4.0.0 with Scala 2.13" in str(refused.value)
        assert "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0" in str(refused.value)

    def test_one_of_another_patch_release_passes_as_registries_may_lack_the_same(self) -> None:
        SparkRelease("3.5.6", "2.12").refuse_other(CONNECTOR, None)

    def test_what_names_none_passes(self) -> None:
        SparkRelease("4.0.0", "2.13").refuse_other("io.delta:delta-spark_2.12:3.2.1", None)
        assert not names_connector("io.delta:delta-spark_2.12:3.2.1", None)
        assert names_connector(None, "/jars/spark-sql-kafka-0-10_2.12-3.5.1.jar")
