"""What a wait remembers from poll to poll, and what each poll means for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_kafka_offsets.conditions.condition import Outcome, Progress
from airflow_kafka_offsets.errors import ClusterError, ConfigurationError, KafkaOffsetsError, OffsetsError
from airflow_kafka_offsets.offsets.instants import duration_text

_MAY_COME_BACK = (OffsetsError, ClusterError, ConfigurationError)
_PATIENCE = 5
"""For this many polls in a row, a permission, topic or connection that worked before may be missing: somebody may be
replacing it. Faults that are there from the start fail at once."""
_FAULT = "Asking again in "
"""How a line begins that tells why a check has failed."""


@dataclass(frozen=True, slots=True)
class WaitStatus:
    """What a poll means for a wait.

    :param status: whether to wait on, or how the wait ends.
    :param line: what to log; empty when nothing has changed.
    :param result: small plain JSON, when the wait is done.
    :param message: why it failed.
    """

    status: Literal["waiting", "done", "failed"]
    line: str = ""
    result: Mapping[str, Any] | None = None
    message: str = ""


class WaitMemory:
    """One wait for a condition.

    :param poll_interval_s: seconds between polls, for the log line.
    :param stable_polls: how many polls in a row the condition must hold.
    :param memory: what an earlier part of the same wait remembered (:meth:`to_json`), maybe in another process. If it
        was written by another version and can't be read, the wait goes on without it.
    """

    __slots__ = ("_answered", "_faults", "_held", "_poll_interval_s", "_stable_polls", "said")

    def __init__(
        self, poll_interval_s: float, *, stable_polls: int = 1, memory: Mapping[str, Any] | None = None
    ) -> None:
        self._poll_interval_s = poll_interval_s
        self._stable_polls = stable_polls
        try:
            self._recall(memory or {})
        except (AttributeError, OverflowError, TypeError, ValueError):
            self._recall({})

    def _recall(self, memory: Mapping[str, Any]) -> None:
        self._answered = bool(memory.get("answered", False))
        self._held = int(memory.get("held", 0))
        self._faults = int(memory.get("faults", 0))
        self.said = str(memory.get("said", ""))
        """The last summary: the state of the wait."""

    def to_json(self) -> dict[str, Any]:
        return {"answered": self._answered, "held": self._held, "faults": self._faults, "said": self.said}

    @property
    def progress(self) -> str | None:
        """How far the wait had come at its last check; None before the first one, and if it has failed: why may name
        brokers."""
        return None if not self.said or self.said.startswith(_FAULT) else self.said

    def take(self, outcome: Outcome) -> WaitStatus:
        """What a poll's outcome means.

        :raises Exception: the outcome, if it isn't a :class:`KafkaOffsetsError`: something is broken.
        """
        if isinstance(outcome, Progress):
            return self._take_progress(outcome)
        if not isinstance(outcome, KafkaOffsetsError):
            raise outcome
        return self._take_fault(outcome)

    def _take_progress(self, progress: Progress) -> WaitStatus:
        self._answered, self._faults = True, 0
        self._held = self._held + 1 if progress.done else 0
        if self._held >= self._stable_polls:
            return WaitStatus("done", self._say(progress.summary) or progress.summary, result=progress.result)
        held = f"; held {self._held} of {self._stable_polls} polls" if progress.done else ""
        return WaitStatus("waiting", self._say(progress.summary + held))

    def _take_fault(self, error: KafkaOffsetsError) -> WaitStatus:
        self._held = 0
        if not error.retriable:
            self._faults += 1
            patient = self._answered and isinstance(error, _MAY_COME_BACK) and self._faults <= _PATIENCE
            if not patient:
                return WaitStatus("failed", message=str(error))
        return WaitStatus("waiting", self._say(f"{_FAULT}{duration_text(self._poll_interval_s)}: {error}"))

    def _say(self, summary: str) -> str:
        """The line for a summary; empty when it repeats the last one."""
        if summary == self.said:
            return ""
        self.said = summary
        return summary
