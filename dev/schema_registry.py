"""A schema registry on this machine: Apicurio, which answers Confluent's API, and keeps everything in memory.

    with SchemaRegistry() as registry:
        registry.url  # the address of Confluent's API

Its archive of 140 MB is retrieved once, into ``.local/jars``.
"""

from __future__ import annotations

import atexit
import shutil
import tarfile
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from dev import LOCAL, jars
from dev.java import java_command
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports

VERSION = "2.6.13.Final"
_ARCHIVE = f"io.apicurio:apicurio-registry-app:{VERSION}:all:tar.gz"
_JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m", "-Djava.awt.headless=true")


class SchemaRegistry:
    """A registry without logins: a context manager.

    On Linux the process is bound to the thread that started it.
    """

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        log = LOCAL / "schema_registry" / f"registry-{self._port}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        self._server = JavaServer("Apicurio", log)

    @property
    def url(self) -> str:
        """The address of Confluent's API, without a trailing slash."""
        return f"http://{HOST}:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        atexit.register(self.close)
        try:
            self._server.launch(self._command())
            self._server.wait_until(self._answers)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process. The log file stays."""
        self._server.kill()
        atexit.unregister(self.close)

    def _command(self) -> list[str]:
        settings = {"quarkus.http.host": HOST, "quarkus.http.port": self._port}
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return [java_command(), *_JVM_FLAGS, *options, "-jar", str(_program())]

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def _program() -> Path:
    """Its jar, with its libraries beside it; unpacked once."""
    folder = jars.retrieve(f"apicurio-{VERSION}", _ARCHIVE)
    program = folder / "app" / f"apicurio-registry-app-{VERSION}-runner.jar"
    if not program.is_file():
        (archive,) = folder.glob("*.tar.gz")
        partial = folder / ".app"
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(archive) as packed:
            packed.extractall(partial, filter="data")
        if not program.is_file():
            partial.rename(folder / "app")
    return program
