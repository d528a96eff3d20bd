"""A real Kafka broker on this machine: one Java process that is broker and KRaft controller at once.

It listens on free ports of 127.0.0.1 and keeps its log segments and its log file under ``.local/kafka``. The process
ends with this one, however this one ends: on leaving the ``with`` block, at exit, and on Linux also when it is killed.

    with Broker() as broker:
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

What the server is told is in :mod:`dev.kafka_properties`; waiting and running is here.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from dev import LOCAL, jars
from dev.java import java_command
from dev.kafka_properties import HOST, Ports, format_arguments, server_properties

KAFKA_VERSION = "4.3.0"
START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 30.0

# The first compiler tier alone and a serial collector: a short-lived broker is up sooner and stays smaller.
JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")


class ToolError(RuntimeError):
    """One of Kafka's own tools failed; the message holds what it wrote to stderr."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How to run one broker.

    :param name: starts the names of its data folder and log file.
    :param properties: server properties, on top of and in place of ours.
    :param users: password by user name. When any are given there is a second listener, SASL_PLAINTEXT with
        SCRAM-SHA-512 and PLAIN, and ACLs are enforced: ``admin`` and whoever comes by the first listener may do
        everything, and a resource that no ACL names is open to all.
    :param heap_mb: heap of the Java process, MiB.
    :param keep_data: leave the data folder in place after the end.
    """

    name: str = "broker"
    properties: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    heap_mb: int = 512
    keep_data: bool = False


class Broker:
    """One broker: a context manager, or :meth:`start` and :meth:`close`.

    Ports are chosen when the object is made, and hold for its life. On Linux the process is bound to the thread that
    called :meth:`start`: start it from a thread that lives as long as the broker is needed.
    """

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.settings = settings or BrokerSettings()
        self._ports = Ports(*_free_ports(3))
        place = LOCAL / "kafka" / f"{self.settings.name}-{self._ports.client}"
        self.data_folder = place
        self.log_file = place.with_name(f"{place.name}.log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Address of the plain listener."""
        return f"{HOST}:{self._ports.client}"

    @property
    def sasl_bootstrap_servers(self) -> str:
        """Address of the SASL_PLAINTEXT listener.

        :raises LookupError: the broker was made without users, so there is none.
        """
        if not self.settings.users:
            raise LookupError("this broker has no SASL listener: give BrokerSettings some users")
        return f"{HOST}:{self._ports.sasl}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start and wait until the broker answers a metadata request. Data of an earlier start of this object is kept.

        :raises RuntimeError: it ended or did not answer in time; the message holds the last lines of its log.
        """
        atexit.register(self.close)
        try:
            if not self._properties_file.exists():
                self._format()
            self._process = self._launch()
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop in an orderly way, and by force when that takes too long. The data stays for the next start."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop and start on the same ports and the same data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop and remove the data folder, unless it is to be kept. The log file stays."""
        self.stop()
        atexit.unregister(self.close)
        if not self.settings.keep_data:
            shutil.rmtree(self.data_folder, ignore_errors=True)

    def run_tool(self, class_name: str, *arguments: str) -> str:
        """What one of Kafka's own tools answers about this broker, asked on the plain listener.

        :param class_name: the tool's Java class, such as ``org.apache.kafka.tools.GetOffsetShell``.
        :param arguments: its arguments, without ``--bootstrap-server``.
        :returns: its stdout.
        :raises ToolError: it ended with an error.
        """
        return _run_java(class_name, "--bootstrap-server", self.bootstrap_servers, *arguments)

    @property
    def _properties_file(self) -> Path:
        return self.data_folder / "server.properties"

    def _format(self) -> None:
        """Make the data folder anew and write the cluster's first metadata into it."""
        shutil.rmtree(self.data_folder, ignore_errors=True)
        self.data_folder.mkdir(parents=True)
        self.log_file.unlink(missing_ok=True)
        properties = server_properties(self._ports, self.data_folder / "log", self.settings.users)
        properties |= self.settings.properties
        try:
            self._properties_file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
            _run_java("kafka.tools.StorageTool", *format_arguments(self._properties_file, self.settings.users))
        except BaseException:
            self._properties_file.unlink(missing_ok=True)
            raise

    def _launch(self) -> subprocess.Popen[bytes]:
        heap = f"-Xmx{self.settings.heap_mb}m"
        command = [*_java(heap, log_level="info"), "kafka.Kafka", str(self._properties_file)]
        with self.log_file.open("ab") as log:
            # A process group of its own: Ctrl-C reaches us alone, so that what still uses the broker ends before it.
            return subprocess.Popen([*_ends_with_parent(), *command], stdout=log, stderr=log, process_group=0)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"Kafka ended while starting.\n{self._last_log_lines()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Kafka did not answer within {START_DEADLINE_S:.0f} s.\n{self._last_log_lines()}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Whether a metadata request names this broker. Connects first: kafka-python would log every refusal."""
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, self._ports.client), timeout=1).close()
            with contextlib.suppress(KafkaError):
                admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers, bootstrap_timeout_ms=5_000)
                with contextlib.closing(admin):
                    return len(admin.describe_cluster()["brokers"]) == 1
        return False

    def _last_log_lines(self, count: int = 25) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()[-count:]
        return "\n".join([f"The end of {self.log_file}:", *lines])


def _java(*flags: str, log_level: str) -> list[str]:
    """The command that runs a class of Kafka's, up to the class name. Kafka's log goes to stderr.

    Kafka Connect and its web server are left out: half of the jars, and no tool that we run needs them.
    """
    folder = jars.retrieve(
        f"kafka-{KAFKA_VERSION}",
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
        "org.slf4j:slf4j-simple:1.7.36",
        without="org[.]apache[.]kafka:connect-.*",
    )
    logging = (f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}", "-Dorg.slf4j.simpleLogger.showDateTime=true")
    return [java_command(), *JVM_FLAGS, *flags, *logging, "-cp", jars.classpath(folder)]


def _run_java(class_name: str, *arguments: str) -> str:
    command = [*_java("-Xmx256m", log_level="warn"), class_name, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        shown = re.sub(r"password=[^],]*", "password=***", " ".join(arguments))
        raise ToolError(f"{class_name} {shown} failed:\n{answer.stderr or answer.stdout}")
    return answer.stdout


def _ends_with_parent() -> list[str]:
    """A prefix that makes the kernel end the command when our thread ends; empty where there is no setpriv (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
