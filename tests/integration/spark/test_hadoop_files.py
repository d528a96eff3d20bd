"""Files through the driver's Hadoop: above all, that one of two writers wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, ExclusiveCreateError, LedgerError
from airflow_kafka_offsets.spark.hadoop import HadoopFiles


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


class TestExclusiveCreation:
    def test_one_of_many_writers_wins_and_its_content_stands(self, files: HadoopFiles, tmp_path: Path) -> None:
        uri = f"file://{tmp_path}/a folder/committed.json"
        contents = [f"writer {number}".encode() for number in range(16)]

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda content: files.create_exclusive(uri, content), contents))

        assert won.count(True) == 1
        assert files.read(uri) == contents[won.index(True)]
        assert [path.name for path in (tmp_path / "a folder").iterdir()] == ["committed.json"]

    def test_a_writer_whose_first_request_got_through_unheard_wins(self, files: HadoopFiles, tmp_path: Path) -> None:
        uri = f"file://{tmp_path}/committed.json"

        assert files.create_exclusive(uri, b"ours")
        assert files.create_exclusive(uri, b"ours")
        assert not files.create_exclusive(uri, b"theirs")

    def test_a_store_that_is_not_known_to_arbitrate_is_refused(self, files: HadoopFiles) -> None:
        with pytest.raises(ExclusiveCreateError, match=r"on a store \(webhdfs\)"):
            files.create_exclusive("webhdfs://127.0.0.1:1/committed.json", b"ours")


class TestFiles:
    def test_what_is_written_is_read_without_side_files(self, files: HadoopFiles, tmp_path: Path) -> None:
        files.write(f"file://{tmp_path}/results/a.json", bytes(range(256)))
        files.write(f"file://{tmp_path}/results/a.json", b"second")

        assert files.read(f"file://{tmp_path}/results/a.json") == b"second"
        assert files.names(f"file://{tmp_path}/results") == ["a.json"]

    def test_what_is_missing_is_none_or_nothing(self, files: HadoopFiles, tmp_path: Path) -> None:
        assert files.read(f"file://{tmp_path}/missing") is None
        assert files.names(f"file://{tmp_path}/missing") == []
        assert not files.exists(f"file://{tmp_path}/missing")
        files.delete(f"file://{tmp_path}/missing")

    def test_a_folder_goes_with_all_that_is_in_it(self, files: HadoopFiles, tmp_path: Path) -> None:
        files.write(f"file://{tmp_path}/folder/deep/file", b"x")
        files.delete(f"file://{tmp_path}/folder")

        assert not (tmp_path / "folder").exists()

    def test_a_store_that_hadoop_has_no_classes_for_is_named(self, files: HadoopFiles) -> None:
        with pytest.raises(LedgerError, match=r"Reading s3://bucket/key failed: .*S3AFileSystem not found"):
            files.read("s3://bucket/key")

    def test_a_folder_that_can_not_be_made_is_an_error_of_the_output(self, files: HadoopFiles, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(ConfigurationError, match="can't be written"):
            files.make_folder(f"file://{tmp_path}/file/folder")
