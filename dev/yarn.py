"""YARN on this machine: a ResourceManager and a NodeManager, in the Hadoop version that PySpark contains.

    with Yarn() as yarn:
        environment = {"HADOOP_CONF_DIR": str(yarn.conf_folder)}  # for spark-submit --master yarn
        SparkSession.builder.config(map=yarn.confs)  # so that drivers and executors fit on it

Each is a Java process that ends with this one. They listen on free ports of 127.0.0.1. Applications have the local disk
as their file system. The containers' folders, with the logs of each, are in ``.local/yarn`` until the end.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import escape

import psutil  # type: ignore[import-untyped]  # Airflow brings it, without types
import pyspark

from dev import LOCAL, jars
from dev.java import java_command
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports

MEMORY_MB, CORES = 6144, 8
"""What the node lends. It isn't reserved."""
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_DAEMON_FLAGS = (
    *("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true"),
    "--add-opens=java.base/java.lang=ALL-UNNAMED",  # its web application makes classes
)
_MANAGERS = {
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
_PARTS_OF_HADOOP = (
    *("common", "auth", "yarn-server-resourcemanager", "yarn-server-nodemanager", "yarn-server-timelineservice"),
)
_LOGGING = """log4j.rootLogger=INFO,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d %p %c{1}: %m%n
"""
_FIFO = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
_PARTS = (
    *("resourcemanager.address", "resourcemanager.scheduler.address", "resourcemanager.resource-tracker.address"),
    *("resourcemanager.admin.address", "resourcemanager.webapp.address", "nodemanager.address"),
    *("nodemanager.localizer.address", "nodemanager.webapp.address", "nodemanager.collector-service.address"),
)
"""What listens on a port, as ``yarn-site.xml`` names it."""


class Yarn:
    """A cluster of one node, without a login: a context manager, or :meth:`start` and :meth:`close`.

    On Linux the processes are bound to the thread that called :meth:`start`.
    """

    def __init__(self) -> None:
        self._ports = dict(zip(_PARTS, free_ports(len(_PARTS)), strict=True))
        self.folder = LOCAL / "yarn" / f"yarn-{self._ports['resourcemanager.address']}"
        self.conf_folder = self.folder / "conf"
        self._servers = {name: JavaServer(f"YARN's {name}", self._log_file(name)) for name in _MANAGERS}

    @property
    def web_url(self) -> str:
        """The ResourceManager's web application, which has its REST API."""
        return f"http://{HOST}:{self._ports['resourcemanager.webapp.address']}"

    @property
    def confs(self) -> dict[str, str]:
        """Spark's confs with which applications fit on this machine."""
        python = {f"spark.{kind}.PYSPARK_PYTHON": sys.executable for kind in ("yarn.appMasterEnv", "executorEnv")}
        small = {f"spark.{part}.memoryOverhead": "256m" for part in ("driver", "executor")}
        places = {
            "spark.yarn.jars": f"local:{_SPARK_JARS}/*",
            "spark.yarn.stagingDir": (self.folder / "staging").as_uri(),
        }
        return python | small | places | {"spark.executor.instances": "1"}

    @property
    def logs(self) -> Path:
        """What containers printed, below a folder for each application."""
        return self.folder / "logs"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start both, and wait until the node has registered.

        :raises RuntimeError: one ended or didn't answer in time; the message has the last lines of its log.
        """
        atexit.register(self.close)
        try:
            self._write_conf()
            for name, server in self._servers.items():
                server.launch(self._command(_MANAGERS[name]))
            self._servers["nodemanager"].wait_until(self._has_a_node)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill both, and all containers, and remove their folders. The log files stay."""
        for server in self._servers.values():
            server.kill()
        for container in self.containers():
            with contextlib.suppress(psutil.NoSuchProcess):
                container.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def applications(self) -> list[dict[str, Any]]:
        """All applications, as the REST API has them, the first one first."""
        found = (self._ask("apps").get("apps") or {}).get("app", [])
        return sorted(found, key=lambda each: str(each["id"]))

    def containers(self) -> list[psutil.Process]:
        """The processes of drivers and executors: their command lines name this cluster's folder."""
        found = []
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(self.folder / "local") in word for word in each.cmdline()):
                    found.append(each)
        return found

    def _has_a_node(self) -> bool:
        try:
            return bool(self._ask("metrics")["clusterMetrics"]["activeNodes"])
        except (OSError, ValueError, KeyError):  # it answers otherwise until it is active
            return False

    def _ask(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.web_url}/ws/v1/cluster/{path}", timeout=10) as answer:
            return dict(json.load(answer))

    def _write_conf(self) -> None:
        self.conf_folder.mkdir(parents=True, exist_ok=True)
        listening = {f"yarn.{part}": f"{HOST}:{port}" for part, port in self._ports.items()}
        yarn = listening | {
            "yarn.resourcemanager.scheduler.class": _FIFO,
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
            "yarn.nodemanager.resource.cpu-vcores": str(CORES),
            "yarn.nodemanager.local-dirs": str(self.folder / "local"),
            "yarn.nodemanager.log-dirs": str(self.logs),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            # Else a node whose disk is nearly full gets no containers.
            "yarn.nodemanager.disk-health-checker.enable": "false",
        }
        for name, confs in {"core-site": {"fs.defaultFS": "file:///"}, "yarn-site": yarn}.items():
            rows = (
                f"<property><name>{each}</name><value>{escape(value)}</value></property>"
                for each, value in confs.items()
            )
            (self.conf_folder / f"{name}.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")
        (self.conf_folder / "log4j.properties").write_text(_LOGGING)

    def _command(self, java_class: str) -> list[str]:
        (api,) = _SPARK_JARS.glob("hadoop-client-api-*.jar")
        version = api.stem.removeprefix("hadoop-client-api-")
        folder = jars.retrieve(
            f"yarn-{version}",
            *(f"org.apache.hadoop:hadoop-{part}:{version}" for part in _PARTS_OF_HADOOP),
            without="com[.]sun[.]xml[.]bind:jaxb-impl",  # older than Java 17
        )
        return [java_command(), *_DAEMON_FLAGS, "-cp", f"{self.conf_folder}:{jars.classpath(folder)}", java_class]

    def _log_file(self, name: str) -> Path:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        return self.folder.with_name(f"{self.folder.name}-{name}.log")
