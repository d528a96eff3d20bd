"""What the triggers of asset watchers share: they fire when something changes, and remember what it was.

Airflow starts a watcher's trigger again whenever it ends, and whenever the triggerer restarts. So these never end, and
what they have fired for is kept in the asset's state store: it is written as soon as an event is handed over. A
triggerer that ends in the second between that and the event's way into Airflow's database loses the event.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from airflow_kafka_offsets.conditions.condition import Condition, Outcome, Progress
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.triggers.polls import KafkaPollTrigger, Poll, PollSchedule

_SHARED_WATCHER = (
    "Several assets have this same watcher, so that its state has no place: after a restart it begins anew. Give each "
    "asset a watcher of its own, with another poll_interval_s for example."
)

_IDENTITY = ("groups", "topics", "window", "kafka_conn_id", "isolation_level")
"""The arguments that make a watch what it is."""


class KafkaEdgeTrigger(KafkaPollTrigger):
    """
    Base of the triggers for ``AssetWatcher``. No fault ends them: it is logged, and asked again.

    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``.
    :param isolation_level: which records count.
    :param poll_interval_s: seconds between polls.
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        poll_interval_s: float = 60,
    ) -> None:
        super().__init__(kafka_conn_id=kafka_conn_id, isolation_level=isolation_level, poll_interval_s=poll_interval_s)
        if poll_interval_s <= 0:
            raise TypeError(f"poll_interval_s is a number of seconds above 0, not {poll_interval_s}.")

    def what(self) -> dict[str, Any]:
        """The arguments that say what is watched, as plain JSON. Each trigger says its own."""
        raise NotImplementedError

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", self.what() | {
            "kafka_conn_id": self.kafka_conn_id,
            "isolation_level": str(self.isolation_level),
            "poll_interval_s": self.poll_interval_s,
        }

    @property
    def _key(self) -> str:
        """Another watch on the same asset has another memory; another limit or interval doesn't make it one."""
        path, arguments = self.serialize()
        watched = json.dumps([arguments.get(name) for name in _IDENTITY])
        return f"{path.rpartition('.')[2]}.{hashlib.sha256(watched.encode()).hexdigest()[:16]}"

    async def recall(self) -> Any:
        """What :meth:`keep` was given last by an earlier run of this watch; None when it never was."""
        while self.asset_state_store is not None:
            try:
                return await self.asset_state_store.aget(self._key)
            except Exception as error:
                if type(error) is ValueError:  # it doesn't know which asset is meant
                    self.log.warning("%s", _SHARED_WATCHER)
                    self.asset_state_store = None
                else:
                    self.log.warning("The asset's state can't be read; asking again: %s", error)
                    await asyncio.sleep(self.poll_interval_s)
        return None

    async def keep(self, value: Any) -> None:
        """Remember plain JSON."""
        if self.asset_state_store is None:
            return
        try:
            await self.asset_state_store.aset(self._key, value)
        except Exception as error:
            self.log.warning("The asset's state can't be written, so a restart may fire again: %s", error)

    async def outcomes_of(
        self, condition: Condition, polls: AsyncIterator[Poll], waits: PollSchedule
    ) -> AsyncGenerator[Outcome]:
        """What polls find out about a condition, each logged when it is something new."""
        said = ""
        async with aclosing(super().outcomes_of(condition, polls, waits)) as found:
            async for outcome in found:
                if isinstance(outcome, Exception) and not isinstance(outcome, KafkaOffsetsError):
                    raise outcome
                again = f"Asking again in {duration_text(self.poll_interval_s)}: {outcome}"
                line = outcome.summary if isinstance(outcome, Progress) else again
                if line != said:
                    self.log.info("%s", line)
                said = line
                yield outcome

    async def first_outcome(
        self, condition: Condition, polls: AsyncIterator[Poll], waits: PollSchedule, is_it: Callable[[Outcome], bool]
    ) -> Outcome:
        """The first outcome of a kind that polls find out about a condition from now on."""
        async with aclosing(self.outcomes_of(condition, polls, waits)) as found:
            async for outcome in found:
                if is_it(outcome):
                    return outcome
        raise RuntimeError("The poll ended, which it never does by itself.")
