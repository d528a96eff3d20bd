"""Fires when the lag of some groups has fallen to zero."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.arguments import as_names
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.triggers.edges import KafkaEdgeTrigger
from airflow_kafka_offsets.triggers.polls import Poll, PollSchedule, refusing_arguments


class KafkaLagZeroTrigger(KafkaEdgeTrigger):
    """
    For an ``AssetWatcher``: fires whenever all groups have caught up after one of them was behind.

    A group that doesn't exist yet is behind. What is so when the watch begins is no event.

    :param groups: a group id or several.
    :param topics: judge these topics alone; all that a group has committed on or reads by default.
    :param max_lag: "zero" may be a few offsets more, in total for each group.

    The other arguments are those of :class:`.edges.KafkaEdgeTrigger`. Payload: ``{"groups": {"<group>": 0}, "max_lag":
    0}``.
    """

    def __init__(
        self, *, groups: str | list[str], topics: str | list[str] | None = None, max_lag: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        with refusing_arguments():
            self._condition = GroupsCaughtUp(
                as_names(groups, "groups"),
                None if topics is None else as_names(topics, "topics"),
                max_lag=max_lag,
                unknown_group="wait",
                isolation_level=self.isolation_level,
            )

    def what(self) -> dict[str, Any]:
        watched = self._condition
        topics = None if watched.topics is None else list(watched.topics)
        return {"groups": list(watched.groups), "topics": topics, "max_lag": watched.max_lag}

    async def events(self, polls: AsyncIterator[Poll], waits: PollSchedule) -> AsyncGenerator[TriggerEvent]:
        """An event at each fall to zero."""
        was_zero = await self.recall()
        async with aclosing(self.outcomes_of(self._condition, polls, waits)) as found:
            async for outcome in found:
                if isinstance(outcome, Progress) and outcome.done != was_zero:
                    if outcome.done and was_zero is not None:
                        yield TriggerEvent(outcome.result)
                    was_zero = outcome.done
                    await self.keep(was_zero)
