"""Fires when new records have arrived."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.arguments import as_names
from airflow_kafka_offsets.conditions.condition import Outcome, Progress
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.errors import WindowError
from airflow_kafka_offsets.offsets.positions import Positions
from airflow_kafka_offsets.triggers.edges import KafkaEdgeTrigger
from airflow_kafka_offsets.triggers.polls import Outcomes, Waits


class KafkaNewDataTrigger(KafkaEdgeTrigger):
    """
    For an ``AssetWatcher``: fires whenever at least so many records have arrived since it fired last.

    It counts from the log ends at the time when the watch begins. On a topic that was re-created or truncated since it
    fired last, everything is new.

    :param topics: a topic or several.
    :param min_records: how many records, over all topics.

    The other arguments are those of :class:`~.edges.KafkaEdgeTrigger`. Payload: ``{"new": {"flights": 120}, "stale":
    {}, "since": "..."}``.
    """

    def __init__(self, *, topics: str | list[str], min_records: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.topics = as_names(topics, "topics")
        self.min_records = min_records

    def what(self) -> dict[str, Any]:
        return {"topics": list(self.topics), "min_records": self.min_records}

    async def events(self, outcomes: AsyncIterator[Outcomes], waits: Waits) -> AsyncGenerator[TriggerEvent]:
        """An event each time that enough has arrived."""
        kept = await self.recall()
        since = None if kept is None else Positions.from_json(kept)
        while True:
            outcome = await self._next(since, outcomes, waits)
            if isinstance(outcome, Progress):
                if since is not None:
                    yield TriggerEvent(outcome.result)
                since = outcome.ends
            else:
                since = Positions(f"the log starts: {outcome}")
            assert since is not None, "new data is judged by log ends"
            await self.keep(since.to_json())

    async def _next(self, since: Positions | None, outcomes: AsyncIterator[Outcomes], waits: Waits) -> Outcome:
        """Enough new data, log ends to begin with, or that the offsets mean nothing any more."""
        condition = NewData(self.topics, since or Positions("the log starts"), self.min_records, self.isolation_level)
        with waits.joined(condition, self.poll_interval_s):
            async with aclosing(self.outcomes_of(condition, outcomes)) as found:
                async for outcome in found:
                    if isinstance(outcome, WindowError):
                        return outcome
                    if isinstance(outcome, Progress) and (outcome.done or since is None):
                        return outcome
        raise RuntimeError("The poll ended, which it never does by itself.")
