"""What of kafka-python is private, and why one minor version at a time is installed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dev import ROOT

PRIVATE = {
    "kafka.net": {"connection/kafka_python.py", "connection/transport.py"},
    "kafka.protocol.schemas": {"decoding.py"},
}
"""How kafka-python opens connections, and makes decoders, and who may use it. Its messages, records and errors are
classes that others use too."""
CLIENT = ROOT / "airflow_kafka_offsets" / "client"


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


@pytest.mark.parametrize("private", PRIVATE)
def test_few_modules_alone_use_the_private_ones(private: str) -> None:
    users = {
        str(file.relative_to(CLIENT))
        for file in CLIENT.rglob("*.py")
        if any(f"{module}.".startswith(f"{private}.") for module in imports(file))
    }
    assert users == PRIVATE[private]
