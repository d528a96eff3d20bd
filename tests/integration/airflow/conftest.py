"""Airflow's classes against the session's broker: connections and a ledger as a user would set them up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from dev.kafka import Broker

Context = dict[str, Any]
Resolve = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def ledger_root(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Connection ``kafka_default`` reaches the broker, and the setting names a fresh ledger root."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": broker.bootstrap_servers})
    root = tmp_path / "ledger"
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", root.as_uri())
    return root


@pytest.fixture
def context() -> Context:
    """A task's context, as far as our classes read it. Tests add the run's interval."""
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=1)
    return {"ti": ti}


@pytest.fixture
def resolve(context: Context) -> Resolve:
    """Run the resolve operator for a topic and two instants."""

    def run(topic: str, start: str, end: str, **arguments: Any) -> dict[str, Any]:
        operator = KafkaResolveWindowOperator(
            task_id="resolve", pipeline="loads", topics=topic, start=start, end=end, **arguments
        )
        return operator.execute(context)

    return run


def use_connection(monkeypatch: pytest.MonkeyPatch, conn_id: str, extra: dict[str, Any], **fields: Any) -> None:
    """Define an Airflow connection."""
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kafka", "extra": extra} | fields))
