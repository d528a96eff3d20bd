"""What is private in kafka-python: who uses it, how answers are decoded, and what it logs."""

from __future__ import annotations

import ast
import time
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import Framed
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.connection.transport import Transport
from dev import ROOT


@pytest.mark.parametrize("version", range(1, ApiVersionsRequest.max_version + 1))
def test_a_version_that_a_broker_does_not_know_is_told_in_version_0(version: int) -> None:
    request = ApiVersionsRequest(version=version)
    request.with_header()
    answer = ApiVersionsResponse(version=0, error_code=35, api_keys=[]).encode()
    decoded = Framed(request).get_response_class().decode(BytesIO(answer))
    assert (decoded.error_code, decoded.api_keys) == (35, [])


PRIVATE = ("kafka.net", "kafka.future", "kafka.protocol.schemas", "kafka.cluster")
"""How kafka-python opens connections, and reads schemas. Its messages, records and errors are classes that others use
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
