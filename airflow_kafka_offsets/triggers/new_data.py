"""Fires when new records have arrived."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.arguments import as_names
from airflow_kafka_offsets.conditions.condition import Outcome, Progress
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.errors import WindowError
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.triggers.edges import KafkaEdgeTrigger
from airflow_kafka_offsets.triggers.polls import Poll, PollSchedule, refusing_arguments


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
        since = await self._log_ends(polls, waits) if kept is None else FixedOffsets.from_json(kept)
        while True:
            outcome = await self.first_outcome(replace(self._first, since=since), polls, waits, _is_news)
            if isinstance(outcome, Progress):
                yield TriggerEvent(outcome.result)
                since = _ends(outcome)
            elif isinstance(outcome, WindowError):
                since = since.without(outcome.topic)
            await self.keep(since.to_json())

    async def _log_ends(self, polls: AsyncIterator[Poll], waits: PollSchedule) -> FixedOffsets:
        """Log ends to begin with."""
        since = _ends(await self.first_outcome(self._first, polls, waits, lambda found: isinstance(found, Progress)))
        await self.keep(since.to_json())
        return since


def _is_news(outcome: Outcome) -> bool:
    """Enough new data, or that the offsets of a topic mean nothing any more."""
    if isinstance(outcome, Progress):
        return outcome.done
    return isinstance(outcome, WindowError) and outcome.topic is not None


def _ends(outcome: Outcome) -> FixedOffsets:
    assert isinstance(outcome, Progress) and outcome.ends is not None, "new data is judged by log ends"
    return outcome.ends
