"""Golden frames: Kafka's requests and responses, byte for byte as Apache Kafka's own Java classes write them.

They are test data for unit tests (``tests/unit/client/requests/golden``), which compare kafka-python's encoding and
ours with Kafka's, without a JVM. This program makes them: py4j drives a JVM, Kafka's generated converters turn the JSON
of :mod:`dev.golden_messages` into messages, and Kafka's own serializer adds a header.

A frame is header and body, without the four bytes of its size. Each version is made by the newest release that supports
it, because Kafka 4 dropped the versions that brokers before 2.1 need (KIP-896).

``python -m dev.golden_frames`` rewrites the files. With ``--check``, it checks whether they are what it would write.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

from dev import ROOT, jars
from dev.golden_messages import MESSAGES, Fields, Message
from dev.java import java_command

GOLDEN = ROOT / "tests" / "unit" / "client" / "requests" / "golden"
RELEASES = ("4.3.0", "3.9.1")
"""Releases of kafka-clients, newest first."""
JACKSON = "com.fasterxml.jackson.core:jackson-databind:2.21.2"
"""A library that Kafka's converters need, and that its artifact doesn't depend on."""

CLIENT_ID = "golden"
CORRELATION_ID = 7
STOP_DEADLINE_S = 30.0

Schema = list[dict[str, Any]]
"""The fields of a structure, as in Kafka's schemas."""


class Release:
    """The message classes of one release of Kafka, in a separate JVM.

    :param version: the release, such as ``4.3.0``.
    :param jar: its kafka-clients, which contains the schemas from which the classes were generated.
    :param jvm: py4j's view of the JVM.
    """

    def __init__(self, version: str, jar: Path, jvm: Any) -> None:
        self.version = version
        self._jar = jar
        self._kafka = jvm.org.apache.kafka.common
        self._json = jvm.com.fasterxml.jackson.databind.ObjectMapper()

    def versions(self, message: Message) -> range:
        """The versions that both the release and the message know; none if the release has no such message."""
        if not _has(self._jar, message.name):
            return range(0)
        message_class = self._class(message, "Data")
        oldest, newest = message_class.LOWEST_SUPPORTED_VERSION, message_class.HIGHEST_SUPPORTED_VERSION
        return range(max(oldest, message.since), min(newest, message.until) + 1)

    def fields(self, message: Message, version: int) -> Fields:
        """The message's fields that a version has, according to the release's schema."""
        return _fields_of_version(message.fields, _schema(self._jar, message.name), version)

    def frame(self, message: Message, version: int) -> bytes:
        """Header and body.

        :raises py4j.protocol.Py4JJavaError: when a field is missing for this version, or isn't one of its fields.
        """
        node = self._json.readTree(json.dumps(self.fields(message, version)))
        body = self._class(message, "DataJsonConverter").read(node, version)
        header = self._header(message, version)
        buffer = self._kafka.requests.RequestUtils.serialize(header.data(), header.headerVersion(), body, version)
        return bytes(buffer.array())

    def _header(self, message: Message, version: int) -> Any:
        key = self._kafka.protocol.ApiKeys.forId(self._class(message, "Data")().apiKey())
        if message.kind == "request":
            return self._kafka.requests.RequestHeader(key, version, CLIENT_ID, CORRELATION_ID)
        return self._kafka.requests.ResponseHeader(CORRELATION_ID, key.responseHeaderVersion(version))

    def _class(self, message: Message, suffix: str) -> Any:
        return getattr(self._kafka.message, f"{message.name}{suffix}")


def golden_files() -> dict[str, str]:
    """The text of each file, by its name. Each line is a frame."""
    entries: dict[str, list[str]] = {}
    with ExitStack() as stack:
        releases = [stack.enter_context(_release(version)) for version in RELEASES]
        for message in MESSAGES:
            entries.setdefault(_file_name(message.api), []).extend(_entries(message, releases))
    return {name: "[\n" + ",\n".join(lines) + "\n]\n" for name, lines in entries.items()}


def _file_name(api: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower() + ".json"


def _entries(message: Message, releases: Sequence[Release]) -> list[str]:
    """A message in each of its versions, in order."""
    makers = {version: release for release in reversed(releases) for version in release.versions(message)}
    return [_entry(message, version, makers[version]) for version in sorted(makers)]


def _entry(message: Message, version: int, release: Release) -> str:
    entry = {
        "message": message.kind,
        "version": version,
        "made_by": release.version,
        "what": message.what,
        "fields": release.fields(message, version),
        "frame": release.frame(message, version).hex(),
    }
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def _release(version: str) -> Iterator[Release]:
    folder = jars.retrieve(f"kafka-messages-{version}", f"org.apache.kafka:kafka-clients:{version}", JACKSON)
    with _jvm(jars.classpath(folder)) as jvm:
        yield Release(version, folder / f"kafka-clients-{version}.jar", jvm)


@contextmanager
def _jvm(classpath: str) -> Iterator[Any]:
    """A JVM that ends with the block, or with this process, because it runs only while its stdin is open."""
    gateway = JavaGateway.launch_gateway(
        classpath=classpath, die_on_exit=True, java_path=java_command(), enable_auth=True
    )
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()
        gateway.java_process.wait(STOP_DEADLINE_S)


_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


@functools.cache
def _has(jar: Path, name: str) -> bool:
    with zipfile.ZipFile(jar) as archive:
        return f"common/message/{name}.json" in archive.namelist()


@functools.cache
def _schema(jar: Path, name: str) -> Schema:
    """The fields of a message class, from its schema."""
    with zipfile.ZipFile(jar) as archive:
        text = archive.read(f"common/message/{name}.json").decode()
    fields: Schema = json.loads(_COMMENT.sub("", text))["fields"]
    return fields


def _fields_of_version(fields: Fields, schema: Schema, version: int) -> Fields:
    """The fields that the version has, including those of nested structures."""
    known = {_json_name(each): each for each in schema if _is_in(version, each["versions"])}
    return {
        name: _value_of_version(value, known[name].get("fields"), version)
        for name, value in fields.items()
        if name in known
    }


def _value_of_version(value: Any, schema: Schema | None, version: int) -> Any:
    if schema is None or value is None:
        return value
    if isinstance(value, Mapping):  # a single structure
        return _fields_of_version(value, schema, version)
    return [_fields_of_version(each, schema, version) for each in value]


def _json_name(field: Mapping[str, Any]) -> str:
    """A field's name in JSON. In schemas, it begins with a capital."""
    name: str = field["name"]
    return name[0].lower() + name[1:]


def _is_in(version: int, versions: str) -> bool:
    """Whether a version is in a range of the schemas' notation: ``2+``, ``2-7`` or ``2``."""
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


def write() -> None:
    """Rewrite every file, and remove those of APIs that aren't covered anymore."""
    GOLDEN.mkdir(exist_ok=True)
    files = golden_files()
    for path in GOLDEN.glob("*.json"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")


def differing_files() -> list[str]:
    """Names of the files that aren't what Kafka's classes write: changed, missing, or superfluous."""
    expected = golden_files()
    found = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.json")}
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def main() -> int:
    """Returns the exit code: 1 if ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m dev.golden_frames", description="Write the golden frames.")
    parser.add_argument("--check", action="store_true", help="write nothing, and name the files that would change")
    if not parser.parse_args().check:
        write()
        return 0
    differing = differing_files()
    for name in differing:
        print(f"{GOLDEN / name} is not what Kafka's classes write: run python -m dev.golden_frames")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
