"""What all sensors share: a condition, checked on the worker or, when deferred, on the triggerer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.compat.airflow_versions import needs_airflow, task_state
from airflow_kafka_offsets.conditions.condition import Condition, Outcome
from airflow_kafka_offsets.conditions.wait_memory import WaitMemory, WaitStatus
from airflow_kafka_offsets.errors import KafkaOffsetsError, StoreFailedError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, KeptClient
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.ledger.storage import first_line, is_from_store
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

_MEMORY = "kafka_offsets.wait"
"""Key in the task state store."""
_FIRST_ANSWER_S = 5.0
"""So long a deferrable sensor waits for an answer on the worker; then it waits on the triggerer."""
_POKES = (
    "what one poke has seen can't be kept for the next, so this sensor stays on its worker and pokes there. "
    "deferrable=True frees the worker on every version."
)


class KafkaWaitSensor(BaseSensorOperator):
    """
    Base of the sensors: pokes a condition, reschedules, or defers.

    A fault that waiting can't fix (wrong password, unknown topic, wrong argument) fails the task at once, whatever its
    timeout and retries. A fault that may pass (no broker answers, a leader moves, the ledger's store fails) is logged
    and waited out. A permission, topic or connection that worked before and is gone gets five more polls. The result is
    pushed as small JSON.

    :param deferrable: wait on the triggerer instead of a worker, which asks once and waits some seconds for an answer;
        default ``[operators] default_deferrable``.
    """

    stable_polls = 1
    kept_offsets: FixedOffsets | None = None
    """Offsets that :meth:`condition` has found and goes on with, kept from poke to poke of a try."""
    ui_color = "#d7e8f7"

    def __init__(
        self,
        *,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable
        self._clients = KeptClient(_FIRST_ANSWER_S if deferrable else None)
        self._wait: WaitMemory | None = None

    @property
    def conn_id(self) -> str:
        """Connection id of the cluster that is asked."""
        raise NotImplementedError

    def condition(self, context: Context) -> Condition:
        """What this task waits for now, once its templates are rendered. Each sensor defines its own, and may ask Kafka
        and the ledger; while they don't answer, it is asked for again."""
        raise NotImplementedError

    @property
    def client(self) -> OffsetsClient:
        """The client, which stays connected from poke to poke."""
        return self._clients.get(KafkaOffsetsHook(self.conn_id).settings())

    def execute(self, context: Context) -> Any:
        """Check once, then defer; or poke and reschedule as any sensor does."""
        until_s = time.time() + self.timeout
        if self._reschedules and task_state(context) is None:
            self.log.warning("%s", needs_airflow("mode='reschedule'", "3.3", _POKES))
            self.mode = "poke"
        with self._clients:
            if self.deferrable:
                return self._check_or_defer(context, until_s)
            try:
                return super().execute(context)
            except AirflowSensorTimeout as error:
                raise self._timed_out(str(error), skips=self.never_fail) from error

    def _check_or_defer(self, context: Context, until_s: float) -> Any:
        """Check once, and wait on the triggerer if the wait goes on: for a condition or, while Kafka or the ledger
        doesn't say for which, for a while.

        :param until_s: when the sensor times out, Unix seconds.
        """
        try:
            condition, verdict = self._check(context)
        except Exception as error:  # in the other modes, the base class does this
            if self.never_fail or (self.soft_fail and isinstance(error, AirflowFailException)):
                raise AirflowSkipException(str(error)) from error
            raise
        if verdict.status == "done":
            return verdict.result
        left_s = until_s - time.time()
        if left_s <= 0:
            message = f"Sensor has timed out; the specified timeout is {self.timeout:g} s."
            raise self._timed_out(message, skips=self.soft_fail or self.never_fail)
        timeout = timedelta(seconds=left_s)
        if condition is None:
            later = TimeDeltaTrigger(timedelta(seconds=self.poke_interval))
            self.defer(trigger=later, method_name="execute_again", kwargs={"until_s": until_s}, timeout=timeout)
        trigger = KafkaWaitTrigger(
            kafka_conn_id=self.conn_id,
            condition=condition.to_json(),
            poll_interval_s=self.poke_interval,
            memory=self._recall(context).to_json() | {"held": 0},  # the triggerer's first poll may be much later
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)

    def _timed_out(self, message: str, *, skips: bool) -> Exception:
        waited = "" if self._wait is None else f" It waited: {self._wait.said}"
        return (AirflowSkipException if skips else AirflowSensorTimeout)(message + waited)

    def poke(self, context: Context) -> PokeReturnValue:
        _, verdict = self._check(context)
        return PokeReturnValue(verdict.status == "done", verdict.result)

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> Any:
        if event is None or event.get("status") not in ("done", "failed"):
            raise AirflowFailException(
                f"The trigger sent {event!r}, which this version doesn't understand. Clear the task to wait again."
            )
        if event["status"] == "failed":
            raise AirflowFailException(event["message"])
        return event["result"]

    def execute_again(self, context: Context, until_s: float, event: Any = None) -> Any:
        """Check again, and defer again if the wait goes on.

        :param until_s: when the sensor times out, Unix seconds.
        """
        with self._clients:
            return self._check_or_defer(context, until_s)

    def _check(self, context: Context) -> tuple[Condition | None, WaitStatus]:
        """Check once. Also returns what was checked; None when that couldn't be made."""
        wait, condition = self._recall(context), None
        outcome: Outcome
        try:
            condition = self.condition(context)
            outcome = progress = condition.check(self.client)
            tell(progress.measures)
        except KafkaOffsetsError as error:
            outcome = error
        except Exception as error:
            if isinstance(error, PermissionError) or not is_from_store(error):
                raise
            outcome = StoreFailedError(f"The ledger's store failed: {first_line(error)}.")
        verdict = wait.take(outcome)
        self._remember(context, wait, is_over=verdict.status != "waiting")
        if verdict.line:
            self.log.info("%s", verdict.line)
        if verdict.status == "failed":
            raise AirflowFailException(verdict.message) from (outcome if isinstance(outcome, Exception) else None)
        return condition, verdict

    @property
    def _reschedules(self) -> bool:
        return self.reschedule and not self.deferrable

    def _recall(self, context: Context) -> WaitMemory:
        if self._wait is None:
            store = task_state(context) if self._reschedules else None
            memory = None if store is None else store.get(_MEMORY)
            if not isinstance(memory, Mapping) or memory.get("try_number") != context["ti"].try_number:
                memory = {}  # each try is a wait of its own
            self._wait = WaitMemory(self.poke_interval, stable_polls=self.stable_polls, memory=memory)
            with suppress(AttributeError, KeyError, TypeError, ValueError):  # another version kept something else
                self.kept_offsets = FixedOffsets.from_json(memory["kept_offsets"])
        return self._wait

    def _remember(self, context: Context, wait: WaitMemory, *, is_over: bool) -> None:
        """Store the wait's memory for the next poke, if that is another process."""
        store = task_state(context) if self._reschedules else None
        if store is not None and is_over:
            store.delete(_MEMORY)
        elif store is not None:
            kept = self.kept_offsets and self.kept_offsets.to_json()
            store.set(_MEMORY, wait.to_json() | {"try_number": context["ti"].try_number, "kept_offsets": kept})
