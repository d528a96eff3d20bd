"""What of kafka-python is private, and why one minor version at a time is installed."""

from __future__ import annotations

import ast
from pathlib import Path

from dev import ROOT

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
