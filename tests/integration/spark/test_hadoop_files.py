"""Files through the driver's Hadoop: small ones, on whatever store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.files import HadoopFiles


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


class TestFiles:
    def test_what_is_written_is_read_without_side_files(self, files: HadoopFiles, tmp_path: Path) -> None:
        files.write(f"file://{tmp_path}/results/a.json", bytes(range(256)))
        files.write(f"file://{tmp_path}/results/a.json", b"second")

        assert files.read(f"file://{tmp_path}/results/a.json") == b"second"
        assert files.names(f"file://{tmp_path}/results") == ["a.json"]

    def test_what_is_missing_is_none_or_nothing(self, files: HadoopFiles, tmp_path: Path) -> None:
        assert files.read(f"file://{tmp_path}/missing") is None
        assert files.names(f"file://{tmp_path}/missing") == []

    @pytest.mark.parametrize(
        ("uri", "package"),
        [
            ("s3://bucket/key", "org.apache.hadoop:hadoop-aws:3.4.1"),
            ("abfss://lake@account.dfs.core.windows.net/x", "org.apache.hadoop:hadoop-azure:3.4.1"),
            ("gs://bucket/key", "the package with its Hadoop FileSystem"),
        ],
    )
    def test_a_store_that_spark_has_no_client_for_is_told_with_the_package_that_brings_it(
        self, files: HadoopFiles, uri: str, package: str
    ) -> None:
        """Another try lacks it too."""
        missing = f"Spark has no client for {uri.partition(':')[0]}://: add {package} to packages= "
        with pytest.raises(ConfigurationError, match=re.escape(f"Reading {uri} failed: {missing}")):
            files.read(uri)
        with pytest.raises(ConfigurationError, match=re.escape(f"The output folder {uri} can't be written: {missing}")):
            files.make_folder(uri)

    def test_a_folder_that_can_not_be_made_is_an_error_of_the_output(self, files: HadoopFiles, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(ConfigurationError, match="can't be written"):
            files.make_folder(f"file://{tmp_path}/file/folder")
