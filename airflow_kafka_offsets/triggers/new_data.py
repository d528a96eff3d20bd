"""Fires when new records have arrived."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.arguments import as_names
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.errors import WindowError
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.triggers.edges import KafkaEdgeTrigger
from airflow_kafka_offsets.triggers.polls import Poll, PollSchedule
from airflow_kafka_offsets.triggers.shared import refusing_arguments


class KafkaNewDataTrigger(KafkaEdgeTrigger):
    """
    For an ``AssetWatcher``: fires whenever at least so many records have arrived since it fired last.

    It counts from the log ends at the time when the watch begins. On a topic that was re-created or truncated since it
    fired last, everything is new.

    :param topics: a topic or several.
    :param min_records: how many records, over all topics.

    The other arguments are those of :class:`.edges.KafkaEdgeTrigger`. Payload: ``{"new": {"flights": 120}, "stale":
    {}, "since": "..."}``.
    """

    def __init__(self, *, topics: str | list[str], min_records: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with refusing_arguments():
            self._first = NewData(
                as_names(topics, "topics"), FixedOffsets("the log starts"), min_records, self.isolation_level
            )

    def what(self) -> dict[str, Any]:
        return {"topics": list(self._first.topics), "min_records": self._first.min_records}

    async def events(self, polls: AsyncIterator[Poll], waits: PollSchedule) -> AsyncGenerator[TriggerEvent]:
        """An event each time that enough has arrived."""
        kept = await self.recall()
        since = None if kept is None else FixedOffsets.from_json(kept)
        while True:
            outcome = await self._next(since, polls, waits)
            if isinstance(outcome, Progress):
                if since is not None:
                    yield TriggerEvent(outcome.result)
                since = outcome.ends
            elif since is not None:
                since = since.without(outcome.topic)
            assert since is not None, "new data is judged by log ends"
            await self.keep(since.to_json())

    async def _next(
        self, since: FixedOffsets | None, polls: AsyncIterator[Poll], waits: PollSchedule
    ) -> Progress | WindowError:
        """Enough new data, log ends to begin with, or that the offsets of a topic mean nothing any more."""
        condition = self._first if since is None else replace(self._first, since=since)
        async with aclosing(self.outcomes_of(condition, polls, waits)) as found:
            async for outcome in found:
                if isinstance(outcome, WindowError) and outcome.topic is not None:
                    return outcome
                if isinstance(outcome, Progress) and (outcome.done or since is None):
                    return outcome
        raise RuntimeError("The poll ended, which it never does by itself.")
