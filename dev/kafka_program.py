"""Kafka's programs in some version: the command lines for its Java classes; runs the short-lived ones.

Kafka Connect and its web server are left out, because they are half of the jars, and nothing here needs them.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from dev import class_archives, jars
from dev.java import java_command

KAFKA_VERSION = "4.3.0"

# Only the first compiler tier, and a serial collector: a short-lived broker starts sooner and stays smaller.
JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
TOOL_HEAP_MB = 256

# Connect; and the logging of Kafka before 4, which would conflict with ours.
UNWANTED_JARS = "org[.](apache[.]kafka|slf4j):(connect-.*|slf4j-reload4j|slf4j-log4j12)"


# Kafka 2's brokers refer to its classes, and get it as a dependency of what is left out.
_LOG4J = ("ch.qos.reload4j:reload4j:1.2.25",)


class ToolError(RuntimeError):
    """One of Kafka's tools failed; the message has its stderr."""


def server_command(version: str, class_name: str, *arguments: str, heap_mb: int) -> list[str]:
    """The command of a server. It logs to stderr what an operator would want to read."""
    return _command(version, class_name, *arguments, heap_mb=heap_mb, log_level="info")


def tool_command(version: str, class_name: str) -> list[str]:
    """The command of a tool, without its arguments."""
    return _command(version, class_name, heap_mb=TOOL_HEAP_MB, log_level="warn")


def run_tool(version: str, class_name: str, *arguments: str) -> str:
    """Run one of Kafka's tools.

    :param version: of Kafka.
    :param class_name: the tool's Java class, such as ``org.apache.kafka.tools.GetOffsetShell``.
    :returns: its stdout.
    :raises ToolError: it failed.
    """
    answer = subprocess.run([*tool_command(version, class_name), *arguments], capture_output=True, text=True)
    if answer.returncode != 0:
        shown = re.sub(r"password=[^],]*", "password=***", " ".join(arguments))
        raise ToolError(f"{class_name} {shown} failed:\n{answer.stderr or answer.stdout}")
    return answer.stdout


def jars_of(version: str) -> Path:
    """The folder with the jars of a version, retrieved if they aren't there."""
    return jars.retrieve(
        f"kafka-{version}",
        f"org.apache.kafka:kafka_2.13:{version}",
        f"org.apache.kafka:kafka-tools:{version}",
        "org.slf4j:slf4j-simple:1.7.36",
        *_LOG4J[not version.startswith("2.") :],
        without=UNWANTED_JARS,
    )


def _command(version: str, class_name: str, *arguments: str, heap_mb: int, log_level: str) -> list[str]:
    logging = (
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
    )
    flags = (*JVM_FLAGS, *class_archives.kafka_flags(), f"-Xmx{heap_mb}m", *logging)
    return [java_command(), *flags, "-cp", jars.classpath(jars_of(version)), class_name, *arguments]
