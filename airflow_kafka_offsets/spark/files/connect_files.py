"""Files as a client of Spark Connect reaches them: its server reads and lists them, by jobs of Spark's.

A job for each of a thousand small files would take minutes, so that what is asked of a ledger is brought by few, once.
Nothing is written: a client has no file system.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from airflow_kafka_offsets.offsets.proof.publication import PUBLICATIONS
from airflow_kafka_offsets.offsets.windows.ledger_names import PIPELINE, pipeline_folder
from airflow_kafka_offsets.spark.files.hadoop import HadoopFiles, hadoop_uri, is_connect, store_error

_STORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
"""What stands before a path, which Hadoop may write in another way than we do."""
_NO_FILE = "PATH_NOT_FOUND"


class ConnectFiles:
    """Files on any store that the server of Spark Connect reaches.

    :param spark: the client's session.
    :param read: patterns of small files that are read at once, all of those that are there.
    :param listed: patterns of files whose names are enough.
    """

    def __init__(self, spark: SparkSession, read: Iterable[str] = (), listed: Iterable[str] = ()) -> None:
        self._spark = spark
        self._patterns = tuple(read), tuple(listed)
        self.look_again()

    def look_again(self) -> None:
        """Bring what the patterns say anew."""
        read, listed = self._patterns
        self._contents = {_path(row["path"]): bytes(row["content"]) for row in self._found(read, "path", "content")}
        self._names: dict[str, set[str]] = defaultdict(set)
        for path in (*self._contents, *(_path(row["path"]) for row in self._found(listed, "path"))):
            while "/" in path:
                path, _, name = path.rpartition("/")
                if name in self._names[path]:
                    break
                self._names[path].add(name)

    def read(self, uri: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        known = self._contents.get(_path(hadoop_uri(uri)))
        return _content(self._spark, uri) if known is None else known

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order; empty when there is no such folder. Where there are patterns, those of the files
        that they match."""
        if any(self._patterns):
            return sorted(self._names.get(_path(hadoop_uri(folder)), ()))
        return sorted({_path(row["path"]).rpartition("/")[2] for row in self._found([f"{folder}/*"], "path")})

    def _found(self, patterns: Iterable[str], *columns: str) -> Iterator[Row]:
        for each in patterns:
            try:
                yield from self._spark.read.format("binaryFile").load(hadoop_uri(each)).select(*columns).collect()
            except PySparkException as error:
                if error.getCondition() != _NO_FILE:
                    raise store_error(f"Reading {each}", each, error, None) from error


LedgerFiles = HadoopFiles | ConnectFiles


def files_of(spark: SparkSession) -> LedgerFiles:
    """Files as a session reaches them."""
    return ConnectFiles(spark) if is_connect(spark) else HadoopFiles(spark)


def pipeline_files(spark: SparkSession, pipeline_uri: str) -> LedgerFiles:
    """A pipeline's files, for what is published of all its windows."""
    if not is_connect(spark):
        return HadoopFiles(spark)
    windows = f"{pipeline_uri}/windows/*"
    read = [f"{windows}/*/{PUBLICATIONS}/*.json", f"{windows}/*.r*/applications/*.json"]
    return ConnectFiles(spark, read, [f"{windows}/*/manifest.json", f"{windows}/*.forgotten"])


def window_files(spark: SparkSession, folder: str, window: str) -> LedgerFiles:
    """A window's files, of all its revisions.

    :param folder: of one of these.
    :param window: the window's name.
    """
    if not is_connect(spark):
        return HadoopFiles(spark)
    ours = f"{folder.rpartition('/')[0]}/{window}"
    read = [f"{ours}/{PUBLICATIONS}/*.json", f"{ours}*/applications/*.json", f"{ours}*/results/*.json"]
    read.append(f"{pipeline_folder(folder)}/{PIPELINE}")
    return ConnectFiles(spark, read, [f"{ours}*/manifest.json", f"{ours}.r*.forgotten"])


def read_file(spark: SparkSession, uri: str) -> bytes | None:
    """One file's content; None when there is no such file."""
    return _content(spark, uri) if is_connect(spark) else HadoopFiles(spark).read(uri)


def _content(spark: SparkSession, uri: str) -> bytes | None:
    try:
        found = spark.read.format("binaryFile").load(hadoop_uri(uri)).select("content").collect()
    except PySparkException as error:
        if error.getCondition() == _NO_FILE:
            return None
        raise store_error(f"Reading {uri}", uri, error, None) from error
    return bytes(found[0]["content"]) if found else None


def _path(uri: str) -> str:
    return _STORE.sub("", uri, count=1)
