"""Fires when a window of time has become complete in the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.arguments import as_milliseconds, as_names
from airflow_kafka_offsets.conditions.condition import Outcome, Progress
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.windows.completeness import IdlePolicy
from airflow_kafka_offsets.triggers.edges import KafkaEdgeTrigger
from airflow_kafka_offsets.triggers.polls import Poll, PollSchedule, refusing_arguments


class KafkaWindowCompleteTrigger(KafkaEdgeTrigger):
    """
    For an ``AssetWatcher``: fires for one window after the other, each when it has become complete.

    Windows of one length follow each other from 1970 on, UTC: full hours, full days. The first one is the one that runs
    when the watch begins; none is left out afterwards, also of those that end while the triggerer is down.

    :param topics: a topic or several.
    :param window: how long a window is, a timedelta or seconds.
    :param allowed_lateness: as for :class:`.sensors.window_complete.KafkaWindowCompleteSensor`.
    :param idle: as there.
    :param idle_after: as there.

    The other arguments are those of :class:`.edges.KafkaEdgeTrigger`. Payload: ``{"start": "2026-11-21T05:00:00.000Z",
    "end": "2026-11-21T06:00:00.000Z", "partitions_passed": 6, "assumed_idle": []}``.
    """

    def __init__(
        self,
        *,
        topics: str | list[str],
        window: timedelta | float,
        allowed_lateness: timedelta | float = 0,
        idle: IdlePolicy = "wait",
        idle_after: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with refusing_arguments():
            self.window_ms = as_milliseconds(window, "window") or 0
            if self.window_ms <= 0:
                raise ConfigurationError(f"window is a duration above 0, not {window!r}.")
            self._first = WindowComplete(
                topics=as_names(topics, "topics"),
                instant_ms=0,
                allowed_lateness_ms=as_milliseconds(allowed_lateness, "allowed_lateness") or 0,
                idle=idle,
                idle_after_ms=as_milliseconds(idle_after, "idle_after"),
                isolation_level=self.isolation_level,
            )

    def what(self) -> dict[str, Any]:
        first = self._first
        return {
            "topics": list(first.topics),
            "window": self.window_ms / 1000,
            "allowed_lateness": first.allowed_lateness_ms / 1000,
            "idle": first.idle,
            "idle_after": None if first.idle_after_ms is None else first.idle_after_ms / 1000,
        }

    async def events(self, polls: AsyncIterator[Poll], waits: PollSchedule) -> AsyncGenerator[TriggerEvent]:
        """An event for each window."""
        end_ms = await self.recall()
        if end_ms is None:
            end_ms = (now_ms() // self.window_ms + 1) * self.window_ms
            await self.keep(end_ms)
        while True:
            outcome = await self.first_outcome(replace(self._first, instant_ms=end_ms), polls, waits, _is_complete)
            assert isinstance(outcome, Progress)
            extent = {"start": iso_instant(end_ms - self.window_ms), "end": iso_instant(end_ms)}
            yield TriggerEvent(extent | {name: fact for name, fact in outcome.result.items() if name != "instant"})
            end_ms += self.window_ms
            await self.keep(end_ms)


def _is_complete(outcome: Outcome) -> bool:
    return isinstance(outcome, Progress) and outcome.done
