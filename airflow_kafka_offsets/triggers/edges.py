"""What the triggers of asset watchers share: they fire when something changes, and remember what it was.

Airflow starts a watcher's trigger again whenever it ends, and whenever the triggerer restarts. So these never end, and
what they have fired for is kept in the asset's state store: it is written as soon as an event is handed over. A
triggerer that is killed in the second between that and the event's way into Airflow's database loses the event.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from airflow_kafka_offsets.conditions.condition import Condition, Outcome
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.triggers.polls import Outcomes
from airflow_kafka_offsets.triggers.shared import KafkaPollTrigger


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
        self._remembered: Any = None

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
        """Another watch on the same asset has another memory; another interval doesn't make it one."""
        path, arguments = self.serialize()
        watched = json.dumps({**arguments, "poll_interval_s": 0}, sort_keys=True)
        return f"{path.rpartition('.')[2]}.{hashlib.sha256(watched.encode()).hexdigest()[:16]}"

    async def recall(self) -> Any:
        """What :meth:`keep` was given last, by an earlier run of this watch maybe; None when it never was."""
        if self.asset_state_store is None:
            return self._remembered
        try:
            return await self.asset_state_store.aget(self._key)
        except ValueError:
            self.log.warning("Several assets have this same watcher: what it has fired for is lost with the triggerer.")
            self.asset_state_store = None
            return None

    async def keep(self, value: Any) -> None:
        """Remember plain JSON."""
        self._remembered = value
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(self._key, value)

    async def outcomes_of(self, condition: Condition, outcomes: AsyncIterator[Outcomes]) -> AsyncGenerator[Outcome]:
        """A condition's own outcomes. Faults are logged, once as long as they stay the same."""
        said = ""
        async with aclosing(super().outcomes_of(condition, outcomes)) as found:
            async for outcome in found:
                if isinstance(outcome, Exception) and not isinstance(outcome, KafkaOffsetsError):
                    raise outcome
                line = str(outcome) if isinstance(outcome, Exception) else ""
                if line and line != said:
                    self.log.info("Asking again in %g s: %s", self.poll_interval_s, line)
                said = line
                yield outcome
