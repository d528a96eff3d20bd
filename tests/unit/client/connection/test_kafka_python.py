"""What is private in kafka-python: who uses it, decoders of every message and version, and what it logs."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import time
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import Framed, _decoder
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.requests import messages as own
from dev import ROOT


def messages() -> Iterator[Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if not module.name.rpartition(".")[2].startswith("generate"):
            importlib.import_module(module.name)
    for message in ApiMessage.__subclasses__():
        if message._class_version is None and message.max_version is not None:
            yield message


OWN = [each.response_class for name, each in vars(own).items() if name.endswith("Request")]
MESSAGES = [*sorted(messages(), key=lambda message: str(message.name)), *OWN]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: str(message.name))
def test_one_is_made_of_every_version(message: Any) -> None:
    for version in range(message.max_version + 1):
        assert callable(_decoder(message, version))


def test_a_single_message_is_not_decoded_by_its_schema_alone() -> None:
    assert [message for message in MESSAGES if "decode" in vars(message)] == [ApiVersionsResponse]


@pytest.mark.parametrize("version", range(1, ApiVersionsRequest.max_version + 1))
def test_a_version_that_a_broker_does_not_know_is_told_in_version_0(version: int) -> None:
    request = ApiVersionsRequest(version=version)
    request.with_header()
    answer = ApiVersionsResponse(version=0, error_code=35, api_keys=[]).encode()
    decoded = Framed(request).get_response_class().decode(BytesIO(answer))
    assert (decoded.error_code, decoded.api_keys) == (35, [])


PRIVATE = ("kafka.net", "kafka.future", "kafka.protocol.schemas", "kafka.cluster")
"""How kafka-python opens connections, and makes decoders. Its messages, records and errors are classes that others use
too."""
CLIENT = ROOT / "airflow_kafka_offsets" / "client"


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


def test_one_module_alone_uses_them() -> None:
    users = {
        str(file.relative_to(CLIENT))
        for file in CLIENT.rglob("*.py")
        for module in imports(file)
        if any(f"{module}.".startswith(f"{private}.") for private in PRIVATE)
    }
    assert users == {"connection/kafka_python.py"}


def test_work_that_takes_its_time_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """As decoding the lag of a thousand groups does. kafka-python warns of what blocks its loop for 0.1 s."""

    async def decode() -> str:
        time.sleep(0.3)
        return "decoded"

    with closing(Transport(ClientSettings.from_config({"bootstrap.servers": "127.0.0.1:1"}), 1)) as transport:
        assert transport.run(decode, Deadline.after(5)) == "decoded"
    assert caplog.messages == []
