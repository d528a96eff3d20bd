"""Triggers of asset watchers: they fire when something changes, and remember what they fired for.

Airflow restarts a watcher's trigger whenever it ends, and whenever the triggerer restarts. So these triggers never end,
and keep what they fired for in the asset's state store, written as soon as an event is handed over. If the triggerer
ends in the second between that and the event's arrival in Airflow's database, the event is lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.arguments import as_milliseconds
from airflow_kafka_offsets.compat.airflow_versions import needs_airflow
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, Progress
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import EVERYTHING_NEW, NewData
from airflow_kafka_offsets.conditions.window_complete import IdlePolicy, WindowComplete
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError, WindowError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant, now_ms
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.triggers.wait import KafkaPollTrigger, refusing_arguments

V = TypeVar("V")
_SHARED_WATCHER = (
    "Several assets have this same watcher, so its state can't be kept: after a restart it starts over. "
    "Give each asset a watcher of its own, for example with a different poll_interval_s."
)

_IDENTITY = ("groups", "topics", "window", "kafka_conn_id", "isolation_level")
"""The arguments that identify a watch."""


class KafkaEdgeTrigger(KafkaPollTrigger):
    """
    Base of the triggers for ``AssetWatcher``. No fault ends them: faults are logged, and the next poll asks again.

    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``.
    :param isolation_level: which records count.
    :param poll_interval_s: seconds between polls.
    """

    asset_state_store: Any = None
    """The asset's state; set by Airflow 3.3 and later."""

    def __init__(
        self,
        *,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        poll_interval_s: float = 60,
    ) -> None:
        super().__init__(kafka_conn_id=kafka_conn_id, poll_interval_s=poll_interval_s)
        with refusing_arguments():
            self.isolation_level = IsolationLevel.of(isolation_level)
        if poll_interval_s <= 0:
            raise TypeError(f"poll_interval_s must be a number of seconds above 0, not {poll_interval_s}.")

    def what(self) -> dict[str, Any]:
        """The arguments that say what is watched, as plain JSON. Each trigger defines its own."""
        raise NotImplementedError

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", self.what() | {
            "kafka_conn_id": self.kafka_conn_id,
            "isolation_level": str(self.isolation_level),
            "poll_interval_s": self.poll_interval_s,
        }

    @property
    def _key(self) -> str:
        """Key of this watch's state. Another watch on the same asset has another key; another limit or interval
        doesn't change it."""
        path, arguments = self.serialize()
        watched = json.dumps([arguments.get(name) for name in _IDENTITY])
        return f"{path.rpartition('.')[2]}.{hashlib.sha256(watched.encode()).hexdigest()[:16]}"

    async def recall(self, read: Callable[[Any], V]) -> V | None:
        """The last value that an earlier run of this watch gave to :meth:`keep`; None when there is none, or when
        another version of this package kept it and it can't be read.

        :param read: makes the value of the JSON that was kept.
        """
        if "asset_state_store" not in vars(self):
            self.log.warning("%s", needs_airflow("Keeping a watcher's state", "3.3", "a restart makes it start over."))
        while self.asset_state_store is not None:
            try:
                kept = await self.asset_state_store.aget(self._key)
                break
            except Exception as error:
                if type(error) is ValueError:  # the store doesn't know which asset is meant
                    self.log.warning("%s", _SHARED_WATCHER)
                    self.asset_state_store = None
                else:
                    self.log.warning("The asset's state can't be read; asking again: %s", error)
                    await asyncio.sleep(self.poll_interval_s)
        else:
            return None
        try:
            return None if kept is None else read(kept)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            self.log.warning("The asset's state is of another version, so the watch starts over: %r", error)
            return None

    async def keep(self, value: Any) -> None:
        """Keep plain JSON for :meth:`recall`."""
        if self.asset_state_store is None:
            return
        try:
            await self.asset_state_store.aset(self._key, value)
        except Exception as error:
            self.log.warning("The asset's state can't be written, so a restart may fire again: %s", error)

    async def outcomes_of(self, condition: Condition) -> AsyncGenerator[Outcome]:
        """Outcomes of a condition's polls, each logged when it is new."""
        said = ""
        async with aclosing(super().outcomes_of(condition)) as found:
            async for outcome in found:
                if isinstance(outcome, Exception) and not isinstance(outcome, KafkaOffsetsError):
                    raise outcome
                again = f"Asking again in {duration_text(self.poll_interval_s)}: {outcome}"
                line = outcome.summary if isinstance(outcome, Progress) else again
                if line != said:
                    self.log.info("%s", line)
                said = line
                yield outcome

    async def first_outcome(self, condition: Condition, is_it: Callable[[Outcome], bool]) -> Outcome:
        """The first outcome of a kind, among a condition's polls from now on."""
        async with aclosing(self.outcomes_of(condition)) as found:
            async for outcome in found:
                if is_it(outcome):
                    return outcome
        raise RuntimeError("The poll ended, which it never does by itself.")


class KafkaLagZeroTrigger(KafkaEdgeTrigger):
    """
    For an ``AssetWatcher``: fires whenever all groups have caught up after one of them was behind.

    A group that doesn't exist yet is behind. The state at the time when the watch begins is not an event.

    :param groups: a group id or several.
    :param topics: judge only these topics; by default all that a group has committed on or reads.
    :param max_lag: lag that still counts as zero, in total for each group.

    The other arguments are those of :class:`KafkaEdgeTrigger`. Payload: ``{"groups": {"<group>": 0}, "max_lag":
    0}``.
    """

    def __init__(
        self, *, groups: str | list[str], topics: str | list[str] | None = None, max_lag: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        with refusing_arguments():
            self._condition = GroupsCaughtUp.given(
                groups, topics, max_lag=max_lag, unknown_group="wait", isolation_level=self.isolation_level
            )

    def what(self) -> dict[str, Any]:
        watched = self._condition
        topics = None if watched.topics is None else list(watched.topics)
        return {"groups": list(watched.groups), "topics": topics, "max_lag": watched.max_lag}

    async def events(self) -> AsyncGenerator[TriggerEvent]:
        was_zero = await self.recall(bool)
        async with aclosing(self.outcomes_of(self._condition)) as found:
            async for outcome in found:
                if isinstance(outcome, Progress) and outcome.done != was_zero:
                    if outcome.done and was_zero is not None:
                        yield TriggerEvent(outcome.result)
                    was_zero = outcome.done
                    await self.keep(was_zero)


class KafkaNewDataTrigger(KafkaEdgeTrigger):
    """
    For an ``AssetWatcher``: fires whenever at least ``min_records`` records have arrived since it last fired, or the
    first of them is ``max_age`` old.

    It counts from the log ends at the time when the watch begins. On a topic that was re-created or truncated since the
    last event, everything is new.

    :param topics: a topic or several.
    :param min_records: how many records, over all topics.
    :param max_age: age of the first new record, by its timestamp, from which on fewer records are enough; a timedelta
        or seconds.

    The other arguments are those of :class:`KafkaEdgeTrigger`. Payload: ``{"new": {"flights": 120}, "since": "..."}``,
    and with ``max_age`` also ``age_s``, the first new record's age if it was looked at.
    """

    def __init__(
        self,
        *,
        topics: str | list[str],
        min_records: int = 1,
        max_age: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with refusing_arguments():
            self._first = NewData.given(
                topics, EVERYTHING_NEW, max_age=max_age, min_records=min_records, isolation_level=self.isolation_level
            )

    def what(self) -> dict[str, Any]:
        given = {"topics": list(self._first.topics), "min_records": self._first.min_records}
        age_ms = self._first.max_age_ms
        return given if age_ms is None else given | {"max_age": age_ms / 1000}

    async def events(self) -> AsyncGenerator[TriggerEvent]:
        since = await self.recall(FixedOffsets.from_json) or await self._log_ends()
        while True:
            outcome = await self.first_outcome(replace(self._first, since=since), _is_news)
            if isinstance(outcome, Progress):
                yield TriggerEvent(outcome.result)
                since = _ends(outcome)
            elif isinstance(outcome, WindowError):
                since = since.on(set(since.names()) - {outcome.topic})
            await self.keep(since.to_json())

    async def _log_ends(self) -> FixedOffsets:
        """The log ends to start from."""
        ends = replace(self._first, max_age_ms=None)  # how old the log's first record is doesn't matter
        since = _ends(await self.first_outcome(ends, lambda found: isinstance(found, Progress)))
        await self.keep(since.to_json())
        return since


def _is_news(outcome: Outcome) -> bool:
    """Whether there is enough new data, or a topic's offsets no longer mean anything."""
    if isinstance(outcome, Progress):
        return outcome.done
    return isinstance(outcome, WindowError) and outcome.topic is not None


def _ends(outcome: Outcome) -> FixedOffsets:
    assert isinstance(outcome, Progress) and outcome.ends is not None, "new data is judged by log ends"
    return outcome.ends


class KafkaWindowCompleteTrigger(KafkaEdgeTrigger):
    """
    For an ``AssetWatcher``: fires for one window after another, when each becomes complete.

    Windows have one length and follow each other from 1970 on, UTC: full hours, full days. The first is the one that is
    open when the watch begins. After that none is left out, not even those that end while the triggerer is down.

    :param topics: a topic or several.
    :param window: length of a window, a timedelta or seconds.
    :param allowed_lateness: as for :class:`.sensors.pipeline_sensors.KafkaWindowCompleteSensor`.
    :param idle: as for that sensor.
    :param idle_after: as for that sensor.

    The other arguments are those of :class:`KafkaEdgeTrigger`. Payload: ``{"start": "2026-11-21T05:00:00.000Z",
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
                raise ConfigurationError(f"window must be a duration above 0, not {window!r}.")
            self._first = WindowComplete.given(
                topics, 0, allowed_lateness, idle_after, idle=idle, isolation_level=self.isolation_level
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

    async def events(self) -> AsyncGenerator[TriggerEvent]:
        end_ms = await self.recall(int)
        if end_ms is None:
            end_ms = (now_ms() // self.window_ms + 1) * self.window_ms
            await self.keep(end_ms)
        while True:
            window = replace(self._first, instant_ms=end_ms)
            outcome = await self.first_outcome(window, lambda found: isinstance(found, Progress) and found.done)
            assert isinstance(outcome, Progress)
            extent = {"start": iso_instant(end_ms - self.window_ms), "end": iso_instant(end_ms)}
            yield TriggerEvent(extent | {name: fact for name, fact in outcome.result.items() if name != "instant"})
            end_ms += self.window_ms
            await self.keep(end_ms)
