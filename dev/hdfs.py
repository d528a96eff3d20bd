"""HDFS on this machine: a name node and one data node in a Java process, in the Hadoop version that PySpark contains.


    with Hdfs() as hdfs:
        spark.read.text(f"{hdfs.uri}/folder")

It is the cluster that Hadoop's own tests use. Its files are in ``.local/hdfs``, and removed at the end.
"""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path
from typing import Self

import pyspark

from dev import LOCAL, jars
from dev.java import java_command
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports

JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m", "-Djava.awt.headless=true")
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
# PySpark has the first two; cryptography is for Kerberos.
_UNWANTED = "org[.](apache[.]hadoop|bouncycastle):(hadoop-client-(api|runtime)|bc.*)"


class Hdfs:
    """A file system without permissions: a context manager, or :meth:`start` and :meth:`close`.

    On Linux the process is bound to the thread that called :meth:`start`.
    """

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self.folder = LOCAL / "hdfs" / f"hdfs-{self._port}"
        self._server = JavaServer("HDFS", self.folder.with_name(f"{self.folder.name}.log"))

    @property
    def uri(self) -> str:
        """Its root, without a trailing slash."""
        return f"hdfs://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start with an empty file system and wait until it answers.

        :raises RuntimeError: it ended or didn't answer in time; the message has the last lines of its log.
        """
        atexit.register(self.close)
        self.folder.mkdir(parents=True, exist_ok=True)
        details = self.folder / "details.json"
        try:
            self._server.launch(self._command(details))
            self._server.wait_until(details.is_file)  # written once the data node has reported
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process and remove its files. The log file stays."""
        self._server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def _command(self, details: Path) -> list[str]:
        (api,) = _SPARK_JARS.glob("hadoop-client-api-*.jar")
        version = api.stem.removeprefix("hadoop-client-api-")
        cluster = jars.retrieve(
            f"hdfs-{version}",
            f"org.apache.hadoop:hadoop-client-minicluster:{version}",
            "commons-logging:commons-logging:1.2",
            "org.slf4j:slf4j-simple:1.7.36",
            without=_UNWANTED,
        )
        classpath = ":".join([jars.classpath(cluster), *map(str, sorted(_SPARK_JARS.glob("hadoop-client-*.jar")))])
        flags = (*JVM_FLAGS, f"-Dtest.build.data={self.folder}", "-cp", classpath)
        serving = ("-format", "-datanodes", "1", "-nnport", str(self._port), "-writeDetails", str(details))
        return [java_command(), *flags, _MAIN, *serving, "-D", "dfs.permissions.enabled=false"]
