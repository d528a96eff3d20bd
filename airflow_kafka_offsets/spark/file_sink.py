"""Files as a sink: each attempt has a folder of its own, ``<path>/window=<window>/attempt=<attempt>/``.

Nothing is replaced: readers go by ``committed.json`` (:func:`~airflow_kafka_offsets.spark.published.read_published`).
For those who can't, the published folder can be moved to a plain Hive-style path, by one rename.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.spark.hadoop import HadoopFiles, hadoop_uri
from airflow_kafka_offsets.spark.hive_path import HivePath, plain_folder
from airflow_kafka_offsets.spark.sink import ATTEMPT_COLUMN, OUTSIDE_COLUMN, WINDOW_COLUMN, Attempt, Sink, Written
from airflow_kafka_offsets.spark.tally import audited_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_kafka_offsets.offsets.publication import Publication

FileFormat = Literal["parquet", "orc", "json"]
FILE_FORMATS: tuple[FileFormat, ...] = ("parquet", "orc", "json")


class FileSink(Sink):
    """Parquet, ORC or JSON files.

    :param path: folder of the whole table, on any store that Spark writes to.
    :param file_format: of the files.
    :param hive_path: move each published window to ``<hive_path>/window=<window>/``, for readers that know nothing of
        the ledger; on the same ``file`` or ``hdfs`` store as the table, since renaming is atomic there, and apart from
        its folder. The first load of a window appears whole; a new revision takes the old one's place by two renames,
        between which there is neither.
    :raises ConfigurationError: for another format, and for a plain path that is the table's folder, within it or
        around it.
    """

    keeps_attempts_apart = True

    def __init__(self, path: str, file_format: FileFormat = "parquet", *, hive_path: str | None = None) -> None:
        if file_format not in FILE_FORMATS:
            raise ConfigurationError(f"Files are written as {', '.join(FILE_FORMATS)}, not as {file_format!r}.")
        self.kind = file_format
        self._path = hadoop_uri(path)
        self.hive_path = None if hive_path is None else hadoop_uri(hive_path)
        if self.hive_path and _nested(self._path, self.hive_path):
            raise ConfigurationError(
                f"The plain path {hive_path} and the table's folder {path} must lie apart: readers of one would see "
                "the other's files."
            )

    def write(self, rows: DataFrame, attempt: Attempt) -> Written:
        """Write the attempt's folder; a window without offsets has none (S6).

        :raises ConfigurationError: the folder can't be made.
        :raises LedgerConflictError: the plain path is another ledger's, or holds what no load has moved there.
        """
        files = HadoopFiles(rows.sparkSession)
        if self.hive_path:
            files.require_atomic_rename(self._path, self.hive_path)
            HivePath(files, self.hive_path).claim(attempt)
        if not attempt.offsets:
            return Written(None, attempt.name)
        folder = self._folder(attempt)
        files.make_folder(folder.rpartition("/")[0])
        sides = [OUTSIDE_COLUMN] if attempt.strict_time else None
        rows.write.format(self.kind).mode("error").save(folder, partitionBy=sides)
        if self.hive_path:
            HivePath(files, self.hive_path).label(folder, attempt)
        return Written(folder, attempt.name)

    def read(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        """The attempt's rows, also where they were moved to the plain path.

        :raises LedgerConflictError: they were moved to another one than this sink's.
        """
        schema = audited_ddl(attempt.strict_time)
        folder = self._folder(attempt)
        files = HadoopFiles(spark)
        if attempt.moved_to is not None and not files.exists(folder):
            folder = self._require_own_place(attempt)
            if attempt.offsets:
                HivePath(files, str(self.hive_path)).require_ours(attempt)
        if not attempt.offsets or not files.exists(folder):
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).format(self.kind).load(folder)

    def published(self, spark: SparkSession, publication: Publication, attempt: Attempt) -> None:
        """Move the rows to the plain path, or clear it when the window has none; a rerun finishes what a crash left.

        :raises LedgerConflictError: they were to be moved to another path than this sink's.
        """
        # Of what the ledger says only whether: the places are this sink's own, so that nobody who may write to the
        # ledger has other folders renamed.
        if publication.moved_to is not None:
            self._require_own_place(attempt)
            rows = self._folder(attempt) if publication.output is not None else None
            HivePath(HadoopFiles(spark), str(self.hive_path)).settle(rows, attempt)

    def _require_own_place(self, attempt: Attempt) -> str:
        """A published window's folder below the plain path.

        :raises LedgerConflictError: the ledger names another folder.
        """
        place = self.moves_to(attempt)
        if place is None or attempt.moved_to != place:
            raise LedgerConflictError(
                f"Window {attempt.window} is published with {attempt.moved_to} as its rows' place, and this sink has "
                f"{'no hive_path' if place is None else f'the hive_path {self.hive_path}'}: a sink touches nothing "
                "outside its own folders. Pass the hive_path (--hive-path) that the window was loaded with."
            )
        return place

    def outrun(self, spark: SparkSession, attempt: Attempt) -> None:
        """Delete the attempt's folder."""
        HadoopFiles(spark).delete(self._folder(attempt))

    def moves_to(self, attempt: Attempt) -> str | None:
        """The window's plain folder; None when it stays."""
        return plain_folder(self.hive_path, attempt.window) if self.hive_path else None

    def _folder(self, attempt: Attempt) -> str:
        return f"{self._path}/{WINDOW_COLUMN}={attempt.window}/{ATTEMPT_COLUMN}={attempt.name}"


def _nested(one: str, other: str) -> bool:
    """Whether two folders of one store are the same, or one lies within the other; two stores are refused anyway."""
    paths = [PurePosixPath(urlsplit(each).path) for each in (one, other)]
    return paths[0].is_relative_to(paths[1]) or paths[1].is_relative_to(paths[0])
