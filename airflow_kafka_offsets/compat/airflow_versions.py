"""What Airflow 3.1 and 3.2 lack."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Protocol

try:
    from airflow.sdk.exceptions import TaskDeferralTimeout  # Airflow 3.2
except ImportError:
    from airflow.exceptions import TaskDeferralTimeout  # type: ignore[no-redef]

__all__ = ["ProcessState", "TaskDeferralTimeout", "TaskState", "needs_airflow", "task_state"]


class TaskState(Protocol):
    """A store of plain JSON by name."""

    def get(self, name: str) -> Any:
        """What was set; None when nothing was."""

    def set(self, name: str, value: Any) -> None:
        """Store a value."""

    def delete(self, name: str) -> None:
        """Remove a value."""


class ProcessState:
    """The same, for as long as this process runs the task."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        return self._kept.get(name)

    def set(self, name: str, value: Any) -> None:
        self._kept[name] = value

    def delete(self, name: str) -> None:
        self._kept.pop(name, None)


def task_state(context: Mapping[str, Any]) -> TaskState | None:
    """The running task's state store, which outlives its pokes and tries; None before Airflow 3.3."""
    return context.get("task_state_store")


def needs_airflow(what: str, since: str, instead: str) -> str:
    """The message that this Airflow lacks something, and what happens instead, or what to do."""
    return f"{what} needs Airflow {since}, but this is {version('apache-airflow-core')}: {instead}"
