"""Files as a driver reaches them: by Hadoop's ``FileSystem``; or, for a client of Spark Connect, by Spark jobs.

Small files are read and written, and folders are listed, on any store that Spark can write to. No file is created
exclusively or renamed: only Airflow's side creates files that two writers could race for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from airflow_kafka_offsets.compat.spark_versions import condition_of
from airflow_kafka_offsets.errors import ConfigurationError, StoreFailedError
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, is_connect, java_classes, words

_NO_CLIENT = re.compile(r'ClassNotFoundException: Class \S+FileSystem not found|No FileSystem for scheme "')
"""How Hadoop says that it has no class for a store; for some stores it knows the class's name."""
_PACKAGES = dict.fromkeys(("s3", "s3a"), "hadoop-aws") | dict.fromkeys(("abfs", "abfss"), "hadoop-azure")
_NO_CREDENTIALS = "NoAuthWithAWSException"
_STORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
"""Scheme and authority before a path, which Hadoop may spell differently."""


def hadoop_uri(uri: str) -> str:
    """The URI as Hadoop spells it: ``s3a://`` for ``s3://``, no Airflow connection id before a bucket, no trailing
    slash."""
    scheme, separator, rest = uri.partition("://")
    if scheme in ("s3", "gs"):
        bucket, slash, path = rest.partition("/")
        uri = f"{scheme.replace('s3', 's3a')}{separator}{bucket.rpartition('@')[2]}{slash}{path}"
    return uri.rstrip("/")


class HadoopFiles:
    """Files on any store that the job's Hadoop knows, with the Spark job's own credentials."""

    def __init__(self, spark: SparkSession) -> None:
        # Spark has no public Python API for the FileSystem; these two attributes are in common use.
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def read(self, uri: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        with self._explained("Reading", uri):
            fs, path = self._locate(uri)
            try:
                stream = fs.open(path)
            except Py4JJavaError as error:
                if java_classes(error)[0] == "java.io.FileNotFoundException":
                    return None
                raise
            try:
                # Java 8, on which Spark 3.5 may run, has no readAllBytes().
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, uri: str, content: bytes) -> None:
        """Create or replace a file."""
        with self._explained("Writing", uri):
            fs, path = self._locate(uri)
            stream = fs.create(path, True)
            stream.write(bytearray(content))
            stream.close()  # not when writing fails: closing would let an object store show half a file

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order; empty when there is no such folder."""
        with self._explained("Listing", folder):
            fs, path = self._locate(folder)
            return sorted(status.getPath().getName() for status in fs.listStatus(path)) if fs.exists(path) else []

    def make_folder(self, uri: str) -> None:
        """Make a folder and its parents; a ConfigurationError if that isn't allowed."""
        refused = f"The output folder {uri} can't be written"
        try:
            fs, path = self._locate(uri)
            made = fs.mkdirs(path)
        except JAVA_ERRORS as error:
            why = what_is_missing(uri, words(error), self._hadoop()) or f"{words(error)}."
            raise ConfigurationError(f"{refused}: {why}") from error
        if not made:
            raise ConfigurationError(f"{refused}. Check the path and who may write there.")

    def _locate(self, uri: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(hadoop_uri(uri))
        fs = path.getFileSystem(self._conf)
        # Hadoop's local file system keeps a .crc beside each file, and believes a stale one; the ledger has none.
        return (fs.getRawFileSystem() if str(fs.getUri().getScheme()) == "file" else fs), path

    @contextmanager
    def _explained(self, doing: str, uri: str) -> Iterator[None]:
        try:
            yield
        except (OSError, *JAVA_ERRORS) as error:
            raise store_error(doing, uri, error, self._hadoop()) from error

    def _hadoop(self) -> str:
        return str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion())


class ConnectFiles:
    """Files on any store that the server reaches; it reads and lists them with Spark jobs. Nothing is written."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, uri: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        found = list(self._found(uri, "content"))
        return bytes(found[0]["content"]) if found else None

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order: its files, and its folders that have files; empty when there is none."""
        inside = f"{_path(hadoop_uri(folder))}/"
        paths = (_path(row["path"]) for row in self._found(f"{folder}/*", "path"))
        return sorted({path.partition(inside)[2].partition("/")[0] for path in paths})

    def write(self, uri: str, content: bytes) -> None:
        """Write nothing."""

    def make_folder(self, uri: str) -> None:
        """Make nothing: the server does, when it writes there."""

    def _found(self, pattern: str, column: str) -> Iterator[Row]:
        try:
            yield from self._spark.read.format("binaryFile").load(hadoop_uri(pattern)).select(column).collect()
        except PySparkException as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                raise store_error("Reading", pattern, error, None) from error


SessionFiles = HadoopFiles | ConnectFiles


def files_of(spark: SparkSession) -> SessionFiles:
    """Files as this session reaches them."""
    return ConnectFiles(spark) if is_connect(spark) else HadoopFiles(spark)


def _path(uri: str) -> str:
    return _STORE.sub("", uri, count=1)


def store_error(doing: str, uri: str, error: Exception, hadoop: str | None) -> ConfigurationError | StoreFailedError:
    """What to raise when a store fails: the store's answer decides whether another try may help."""
    missing = what_is_missing(uri, words(error), hadoop)
    if missing is not None:
        return ConfigurationError(f"{doing} {uri} failed: {missing}")
    return StoreFailedError(f"{doing} {uri} failed: {words(error)}.")


def what_is_missing(uri: str, said: str, hadoop: str | None) -> str | None:
    """What a session lacks to reach a place, and what to do, in a sentence; None if it lacks nothing. Another try would
    lack it too, so this is a configuration error.

    :param said: the first line of Hadoop's error.
    :param hadoop: the session's version of Hadoop; None if unknown, as for a Spark Connect server.
    """
    scheme = uri.partition("://")[0]
    if _NO_CLIENT.search(said):
        package = "the package with its Hadoop FileSystem"
        if scheme in _PACKAGES:
            package = f"org.apache.hadoop:{_PACKAGES[scheme]}:{hadoop or '<version of its Hadoop>'}"
        return f"Spark has no client for {scheme}://: add {package} to packages= (--packages of spark-submit)."
    if _NO_CREDENTIALS in said:
        return (
            "Spark's driver has no credentials for S3, and doesn't see Airflow's connection: put AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY into the environment of the worker (in cluster mode: of the driver), or "
            "name where they come from with the conf spark.hadoop.fs.s3a.aws.credentials.provider."
        )
    return None
