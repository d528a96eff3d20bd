"""Files as a sink: each driver has a folder of its own, ``<path>/window=<window>/attempt=<number>-<run>/``.

Nothing is replaced: the ledger's publications tell readers which folder to read
(:func:`~airflow_kafka_offsets.spark.published.read_published`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from pyspark.errors import AnalysisException

from airflow_kafka_offsets.compat.spark_versions import condition_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.files import files_of, hadoop_uri
from airflow_kafka_offsets.spark.session.session import held, words
from airflow_kafka_offsets.spark.sinks.sink import ATTEMPT_COLUMN, AUDITED_DDL, WINDOW_COLUMN, Attempt, Sink, places_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FileFormat = Literal["parquet", "orc", "json"]
_TIMESTAMPS, _MICROSECONDS = "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
"""How Parquet files store timestamps. Spark's default is INT96, which Parquet has deprecated: it takes more bytes, and
has no minimum and maximum by which a reader could skip files."""
_NO_STATISTICS = {"parquet.column.statistics.enabled#value": "false"}
"""Keep no minimum and maximum of keys and values in Parquet files: nobody skips files by them, and comparing and
copying takes time for each record. Spark's Parquet knows the option from Spark 4.0 on."""
_WHOLE_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How JSON has times, which Spark cuts to milliseconds by default; what its default is depends on the session."""
AS_WRITTEN = {
    "__globPaths__": "false",
    **dict.fromkeys(("ignoreMissingFiles", "ignoreCorruptFiles"), "false"),
    "mode": "FAILFAST",
    "columnNameOfCorruptRecord": "",
    **_WHOLE_TIMES,
}
"""How files are read back. A path's characters stand for themselves, also those that Spark takes for a pattern (its own
option for that). Nothing is left out, whatever the session's confs say. JSON that can't be read isn't a row of nulls,
and a column ``_corrupt_record`` isn't Spark's."""
FILE_FORMATS: tuple[FileFormat, ...] = ("parquet", "orc", "json")


class FileSink(Sink):
    """Parquet, ORC or JSON files.

    :param path: folder of the whole table, on any store that Spark can write to; see :mod:`.sinks.sink` for names in
        it.
    :param file_format: format of the files.
    :raises ConfigurationError: for another format.
    """

    keeps_attempts_apart = True

    def __init__(self, path: str, file_format: FileFormat = "parquet") -> None:
        if file_format not in FILE_FORMATS:
            raise ConfigurationError(f"Files are written as {', '.join(FILE_FORMATS)}, not as {file_format!r}.")
        self.kind: FileFormat = file_format
        self.place: str = hadoop_uri(path)
        self._schemas: dict[str, StructType | str] = {}
        """Of what was written and isn't looked at yet, by folder."""

    def outputs(self, pipeline: str, topics: Iterable[str]) -> Mapping[str, Sink]:
        """This sink, or one for each topic."""
        places = places_of(self.place, pipeline, topics, is_path=True)
        return {name: self if place == self.place else type(self)(place, self.kind) for name, place in places.items()}

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        """Write the driver's folder; a window without offsets has none (S6).

        :raises ConfigurationError: the folder can't be made, or the format has no such columns.
        """
        if not attempt.offsets:
            return None
        folder = self._folder(attempt)
        files_of(rows.sparkSession).make_folder(folder.rpartition("/")[0])
        with held(rows.sparkSession, _TIMESTAMPS, lambda given: _MICROSECONDS if given is None else None):
            writer = rows.write.format(self.kind).mode("error")
            if self.kind == "parquet" and ("value", "binary") in rows.dtypes:
                writer = writer.options(**_NO_STATISTICS)
            if self.kind == "json":
                writer = writer.options(**_WHOLE_TIMES)
            try:
                writer.save(folder)
            except AnalysisException as error:
                raise ConfigurationError(
                    f"Spark can't write the window's rows as {self.kind} to {self.place}: {words(error)}."
                ) from error
        self._schemas[folder] = rows.schema
        return folder

    def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
        """The driver's rows; none if its folder is gone."""
        folder = self._folder(attempt)
        # Pass the schema: to infer it, Spark would open files, and read all of JSON.
        schema = self._schemas.pop(folder, AUDITED_DDL)
        if attempt.offsets:
            try:
                found = spark.read.options(**AS_WRITTEN).schema(schema).format(self.kind).load(folder)
                _ = found.schema  # has a Spark Connect client ask its server now
                return found, attempt.name
            except AnalysisException as error:
                if condition_of(error) != "PATH_NOT_FOUND":
                    raise
        return spark.createDataFrame([], schema), attempt.name

    def _folder(self, attempt: Attempt) -> str:
        return f"{self.place}/{WINDOW_COLUMN}={attempt.window}/{ATTEMPT_COLUMN}={attempt.name}"
