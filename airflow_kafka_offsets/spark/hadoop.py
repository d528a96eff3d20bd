"""Files as the driver reaches them: Hadoop's ``FileSystem``, with the credentials that the Spark job itself has.

The one operation that publishing stands on is exclusive creation: a file appears with its whole content or not at all,
and only one of two racing writers creates it. ``FileSystem.create(overwrite=False)`` does not promise that (on local
disks it checks first and creates then), so each kind of store gets the call that does, and every other kind is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, ExclusiveCreateError, StoreFailedError
from airflow_kafka_offsets.local_file import create_local

_ATOMIC_RENAME = ("file", "hdfs")
"""Stores that rename a folder in one step."""
_CONDITIONAL_PUT = frozenset({"s3a", "gs"})
"""Stores that put an object only where there is none. ``gs`` does so whenever ``overwrite`` is false; see below for
S3."""
_S3A_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""HADOOP-19256, Hadoop 3.4.2. Older clients look first and put then."""
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


def read_file(spark: SparkSession, uri: str) -> bytes | None:
    """A file's content; None when there is no such file. Works under Spark Connect too, where the server reads it."""
    if not is_connect(spark):
        return HadoopFiles(spark).read(uri)
    try:
        found = spark.read.format("binaryFile").load(hadoop_uri(uri)).select("content").collect()
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise StoreFailedError(f"Reading {uri} failed: {words(error)}.") from error
    return bytes(found[0]["content"]) if found else None


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
                "A session of Spark Connect doesn't reach the ledger: its client has no Hadoop. Use a session with a "
                "driver of its own, as spark-submit and @task.pyspark make it."
            )
        # Spark offers no public way from Python to the FileSystem; these two are what everybody uses.
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        self._gateway: Any = spark.sparkContext._gateway

    def read(self, uri: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        with _explained("Reading", uri):
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
        with _explained("Writing", uri):
            fs, path = self._locate(uri)
            self._fill(fs.create(path, True), content)

    def exists(self, uri: str) -> bool:
        """Whether there is such a file or folder."""
        with _explained("Looking for", uri):
            fs, path = self._locate(uri)
            return bool(fs.exists(path))

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order; empty when there is no such folder."""
        with _explained("Listing", folder):
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
            raise ConfigurationError(f"The output folder {uri} can't be written: {words(error)}.") from error
        if not made:
            raise ConfigurationError(
                f"The output folder {uri} can't be written. Check the path and who may write there."
            )

    def rename(self, source: str, target: str) -> bool:
        """Rename a folder to a name that isn't taken.

        :returns: False when there is no such folder, or the name is taken.
        """
        with _explained("Renaming", source):
            fs, path = self._locate(source)
            _, place = self._locate(target)
            if not fs.exists(path) or fs.exists(place):
                return False
            fs.mkdirs(place.getParent())
            return self._rename(fs, path, place)

    def _rename(self, fs: Any, path: Any, place: Any) -> bool:
        """``FileSystem.rename`` would move the folder into one that came there since we looked."""
        try:
            if _scheme(fs) == "file":
                Path(path.toUri().getPath()).rename(place.toUri().getPath())
            else:
                options = self._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)
                self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(fs.getUri(), self._conf).rename(
                    path, place, options
                )
        except (OSError, *JAVA_ERRORS):
            if fs.exists(path) and not fs.exists(place):
                raise
            return False
        return True

    def require_atomic_rename(self, source: str, target: str) -> None:
        """Refuse two stores, and one whose rename copies file by file.

        :raises ConfigurationError: naming those that do it in one step.
        """
        with _explained("Looking for", target):
            stores = {str(fs.getUri()): _scheme(fs) for fs in (self._locate(each)[0] for each in (source, target))}
        if len(stores) > 1 or not set(stores.values()) <= set(_ATOMIC_RENAME):
            raise ConfigurationError(
                f"A folder can't be renamed in one step from {source} to {target}, so readers would see part of a "
                f"window. Use one store for both ({' or '.join(_ATOMIC_RENAME)}), or let readers go through "
                "read_published()."
            )

    def delete(self, uri: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing happens when there is none."""
        with _explained("Deleting", uri):
            fs, path = self._locate(uri)
            fs.delete(path, True)

    def require_exclusive(self, uri: str) -> None:
        """Refuse a store that can't create a file exclusively: asked before a run reads anything.

        :raises ExclusiveCreateError: saying what is needed.
        """
        with _explained("Looking for", uri):
            fs, path = self._locate(uri)
            scheme = _scheme(fs)
            if scheme == "s3a" and not fs.hasPathCapability(path, _S3A_CONDITIONAL):
                raise ExclusiveCreateError(
                    f"{uri} can't be created exclusively: S3's conditional put needs Hadoop 3.4.2 or later with "
                    f"fs.s3a.create.conditional.enabled, and this Spark runs Hadoop {self._hadoop_version()}. "
                    "Use Spark 4.1 or later with the hadoop-aws of its Hadoop version, or keep the ledger elsewhere."
                )
            known = {"hdfs", "file"} | _CONDITIONAL_PUT
            if scheme not in known:
                raise ExclusiveCreateError(
                    f"{uri} is on a store ({scheme}) that isn't known to create a file exclusively, so two "
                    f"attempts could both win. Use one of {', '.join(sorted(known))}."
                )

    def _hadoop_version(self) -> str:
        return str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion())

    def create_exclusive(self, uri: str, content: bytes) -> bool:
        """Create a file with this content, unless it exists.

        :returns: True when the file holds exactly this content; False when somebody else's stands there. A writer whose
            first request got through unheard finds its own content, and wins.
        :raises ExclusiveCreateError: when the store can't create exclusively.
        """
        self.require_exclusive(uri)
        with _explained("Creating", uri):
            fs, path = self._locate(uri)
            try:
                self._create(fs, path, content)
            except (FileExistsError, *JAVA_ERRORS):
                standing = self.read(uri)
                if standing is None:
                    raise
                return standing == content
            return True

    def _create(self, fs: Any, path: Any, content: bytes) -> None:
        scheme = _scheme(fs)
        if scheme == "file":
            create_local(Path(path.toUri().getPath()), content)
        elif scheme == "hdfs":
            # A file is there from its first byte on; a rename shows it whole, and never takes a name that is taken.
            aside = self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{uuid4().hex}")
            self._fill(fs.create(aside, False), content)
            if not fs.rename(aside, path):
                fs.delete(aside, False)
                raise FileExistsError(str(path))
        else:
            builder = fs.createFile(path).overwrite(False).recursive()
            if scheme == "s3a":
                builder = builder.must(_S3A_CONDITIONAL, True)
            self._fill(builder.build(), content)

    def _fill(self, stream: Any, content: bytes) -> None:
        """Not closed when writing fails: closing would let an object store show half a file."""
        stream.write(bytearray(content))
        stream.close()

    def _locate(self, uri: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(hadoop_uri(uri))
        fs = path.getFileSystem(self._conf)
        # Hadoop's local file system keeps a .crc beside each file, and believes a stale one; the ledger has none.
        return (fs.getRawFileSystem() if _scheme(fs) == "file" else fs), path


def _scheme(fs: Any) -> str:
    return str(fs.getUri().getScheme())


@contextmanager
def _explained(doing: str, uri: str) -> Iterator[None]:
    try:
        yield
    except (OSError, *JAVA_ERRORS) as error:
        raise StoreFailedError(f"{doing} {uri} failed: {words(error)}.") from error


def words(error: Exception) -> str:
    """The first line of what Java said, without its stack."""
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().splitlines()[0].rstrip(".")


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())
