"""What all our sensors share: a condition, checked on the worker or, deferred, on the triggerer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSkipException,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)

from airflow_kafka_offsets.conditions import Condition, Progress
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaWaitSensor(BaseSensorOperator):
    """
    Base of the sensors: pokes a condition, reschedules, or defers.

    A fault that waiting can't mend (wrong password, unknown topic, wrong argument) fails the task at once, whatever its
    timeout and retries. A passing one (no broker answers, a leader moves) is logged and waited out. The result is
    pushed as small JSON.

    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    :param deferrable: wait on the triggerer instead of a worker; default ``[operators] default_deferrable``.
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id
        self.deferrable = deferrable

    def condition(self, context: Context) -> Condition:
        """What this task waits for, once its templates are rendered. Each sensor says its own."""
        raise NotImplementedError

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once."""
        progress = self._check(context)
        self.log.info("%s", progress.summary)
        return PokeReturnValue(progress.done, progress.result)

    def execute(self, context: Context) -> Any:
        """Check once, then defer; or poke and reschedule as any sensor does."""
        if not self.deferrable:
            return super().execute(context)
        try:
            progress = self._check(context)
        except AirflowFailException as error:
            # As the other modes do: there the base class sees to it.
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise
        self.log.info("%s", progress.summary)
        if not progress.done:
            self._defer(context)
        return progress.result

    def _defer(self, context: Context) -> NoReturn:
        self.defer(
            trigger=KafkaWaitTrigger(
                kafka_conn_id=self.kafka_conn_id,
                condition=self.condition(context).to_json(),
                poll_interval_s=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> Any:
        """Take what the trigger found."""
        if event is None or event.get("status") not in ("done", "failed"):
            raise AirflowFailException(f"The trigger sent {event!r}, which this version doesn't understand.")
        if event["status"] == "failed":
            raise AirflowFailException(event["message"])
        return event["result"]

    def _check(self, context: Context) -> Progress:
        try:
            with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
                return self.condition(context).check(client)
        except KafkaOffsetsError as error:
            if not error.retriable:
                raise AirflowFailException(str(error)) from error
            return Progress(False, f"Asking again in {self.poke_interval:g} s: {error}", {})
