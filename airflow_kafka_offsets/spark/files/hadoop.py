"""Files as the driver reaches them: Hadoop's ``FileSystem``, with the credentials that the Spark job itself has.

Small ones are read and written, and folders are listed: whatever store Spark writes to will do. No file is created
exclusively, and none is renamed: what two writers could race for is created by Airflow's side alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, StoreFailedError
from airflow_kafka_offsets.spark.files.missing_client import what_is_missing

JAVA_ERRORS = (Py4JJavaError, PySparkException)
"""What comes of Java through Python: as it is, or as PySpark's own error where it knows the class."""


def hadoop_uri(uri: str) -> str:
    """The URI as Hadoop spells it: ``s3a://`` for ``s3://``, no Airflow connection id before a bucket, and no slash at
    the end."""
    scheme, separator, rest = uri.partition("://")
    if scheme in ("s3", "gs"):
        bucket, slash, path = rest.partition("/")
        uri = f"{scheme.replace('s3', 's3a')}{separator}{bucket.rpartition('@')[2]}{slash}{path}"
    return uri.rstrip("/")


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect, which has no driver at hand: no JVM, no Hadoop."""
    return not isinstance(spark, SparkSession)


class HadoopFiles:
    """Files on any store that the job's Hadoop knows.

    :param spark: the session whose Hadoop configuration and credentials are used.
    """

    def __init__(self, spark: SparkSession) -> None:
        if is_connect(spark):
            raise ConfigurationError(
                "A client of Spark Connect has no Hadoop, which this needs. Use a session with a driver of its own, as "
                "spark-submit and @task.pyspark make it."
            )
        # Spark offers no public way from Python to the FileSystem; these two are what everybody uses.
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def read(self, uri: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        with self._explained("Reading", uri):
            fs, path = self._locate(uri)
            try:
                stream = fs.open(path)
            except Py4JJavaError as error:
                if _java_class(error) == "java.io.FileNotFoundException":
                    return None
                raise
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write(self, uri: str, content: bytes) -> None:
        """Create or replace a file."""
        with self._explained("Writing", uri):
            fs, path = self._locate(uri)
            self._fill(fs.create(path, True), content)

    def exists(self, uri: str) -> bool:
        """Whether there is such a file or folder."""
        with self._explained("Looking for", uri):
            fs, path = self._locate(uri)
            return bool(fs.exists(path))

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order; empty when there is no such folder."""
        with self._explained("Listing", folder):
            fs, path = self._locate(folder)
            return sorted(each.getPath().getName() for each in fs.listStatus(path)) if fs.exists(path) else []

    def make_folder(self, uri: str) -> None:
        """Make a folder and those above it.

        :raises ConfigurationError: when that isn't allowed.
        """
        try:
            fs, path = self._locate(uri)
            made = fs.mkdirs(path)
        except JAVA_ERRORS as error:
            missing = what_is_missing(uri, words(error), self._hadoop())
            raise ConfigurationError(
                f"The output folder {uri} can't be written: {missing or f'{words(error)}.'}"
            ) from error
        if not made:
            raise ConfigurationError(
                f"The output folder {uri} can't be written. Check the path and who may write there."
            )

    def _fill(self, stream: Any, content: bytes) -> None:
        """Not closed when writing fails: closing would let an object store show half a file."""
        stream.write(bytearray(content))
        stream.close()

    def _locate(self, uri: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(hadoop_uri(uri))
        fs = path.getFileSystem(self._conf)
        # Hadoop's local file system keeps a .crc beside each file, and believes a stale one; the ledger has none.
        return (fs.getRawFileSystem() if _scheme(fs) == "file" else fs), path

    @contextmanager
    def _explained(self, doing: str, uri: str) -> Iterator[None]:
        try:
            yield
        except (OSError, *JAVA_ERRORS) as error:
            raise store_error(f"{doing} {uri}", uri, error, self._hadoop()) from error

    def _hadoop(self) -> str:
        return str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion())


def _scheme(fs: Any) -> str:
    return str(fs.getUri().getScheme())


def store_error(doing: str, uri: str, error: Exception, hadoop: str | None) -> ConfigurationError | StoreFailedError:
    """What to raise where a store fails: whether another try may help depends on what it said.

    :param hadoop: as :func:`~airflow_kafka_offsets.spark.files.missing_client.what_is_missing` takes it.
    """
    missing = what_is_missing(uri, words(error), hadoop)
    if missing is not None:
        return ConfigurationError(f"{doing} failed: {missing}")
    return StoreFailedError(f"{doing} failed: {words(error)}.")


def words(error: Exception) -> str:
    """The first line of what Java said, without its stack."""
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().splitlines()[0].rstrip(".")


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())
