"""Modes: poking, rescheduling and deferring are three ways to wait for the same thing, with the same end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferred,
)
from structlog.testing import capture_logs

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor, KafkaOffsetsReachedSensor
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaNewDataSensor, KafkaWindowCompleteSensor
from airflow_kafka_offsets.sensors.wait_sensor import KafkaWaitSensor
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from tests.integration.airflow.conftest import T0_MS, Commit, Context, at, use_connection
from tests.integration.airflow.waits.waits import event_of
from tests.integration.client.cases.workload import new_name
from tests.integration.conftest import Produce
from tests.patience import PATIENCE_S

MODES: dict[str, dict[str, Any]] = {
    "poke": {},
    "reschedule": {"mode": "reschedule"},
    "deferrable": {"deferrable": True},
}
KINDS = ["group_lag", "offsets_reached", "window_complete", "new_data"]
FAILURES = [({}, AirflowFailException), ({"soft_fail": True}, AirflowSkipException)]
FAILURES += [({"never_fail": True}, AirflowSkipException)]
INTERVAL_S = 0.2


@dataclass(frozen=True)
class Waited:
    """Something to wait for.

    :param make: a sensor for it.
    :param misspelt: arguments that make it wait for something that can't come true.
    :param come_true: makes it true.
    """

    make: Callable[..., KafkaWaitSensor]
    misspelt: dict[str, Any]
    come_true: Callable[[], object]


@pytest.fixture(params=KINDS)
def waited(request: pytest.FixtureRequest, ten: str, commit: Commit, produce: Produce, context: Context) -> Waited:
    """What one of the four sensors waits for, on a topic of ten records; it isn't true yet."""
    context["ti"].get_first_reschedule_date = lambda _: None
    group = new_name("group")
    commit(group, ten, 4)
    pipeline, none = KafkaPipeline("loads", ten), {"pipeline": KafkaPipeline("loads", "mispselt")}
    snapshot = KafkaOffsetSnapshotOperator(task_id="snapshot", pipeline=pipeline).execute(context)
    kinds: dict[str, tuple[type[KafkaWaitSensor], dict[str, Any], dict[str, Any]]] = {
        "group_lag": (KafkaGroupLagSensor, {"groups": group}, {"groups": "mispselt"}),
        "offsets_reached": (KafkaOffsetsReachedSensor, {"group": group, "target": snapshot}, {"group": "mispselt"}),
        "window_complete": (
            KafkaWindowCompleteSensor,
            {"pipeline": pipeline, "start": at(0), "end": at(10)},
            none,
        ),
        "new_data": (KafkaNewDataSensor, {"pipeline": pipeline, "since": snapshot}, none),
    }
    kind, arguments, misspelt = kinds[request.param]

    def make(**options: Any) -> KafkaWaitSensor:
        return kind(**{"task_id": "s", "poke_interval": INTERVAL_S} | arguments | options)

    def come_true() -> None:
        if request.param in ("group_lag", "offsets_reached"):
            commit(group, ten, 10)
        else:
            produce(ten, 0, [(T0_MS + 10_000, None, b"x")])

    return Waited(make, misspelt, come_true)


def resume(
    sensor: KafkaWaitSensor, context: Context, event: dict[str, Any], deferred: TaskDeferred | None = None
) -> Any:
    """Go on after a trigger's event, as Airflow does.

    :param deferred: what the sensor raised; None if it goes on with its usual method.
    """
    method, kwargs = (deferred.method_name, deferred.kwargs or {}) if deferred else ("execute_complete", {})
    return sensor.resume_execution(method, {**kwargs, "event": event}, context)


def outage(monkeypatch: pytest.MonkeyPatch, client_timeout_s: int = 1) -> None:
    """Let nothing answer where the default connection points to."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", str(client_timeout_s))


class TestDone:
    def test_in_each_mode_it_is_done_at_once_with_the_same_result(self, waited: Waited, context: Context) -> None:
        waited.come_true()
        poked, *others = [waited.make(**mode).execute(context) for mode in MODES.values()]
        assert poked
        assert others == [poked, poked]


class TestWaiting:
    """In each mode it waits until it is true, and then pushes what it found."""

    def test_poking_holds_on(self, waited: Waited, context: Context) -> None:
        later = threading.Timer(2 * INTERVAL_S, waited.come_true)
        later.start()
        result = waited.make().execute(context)
        later.join()
        assert result == waited.make().execute(context)

    def test_rescheduling_comes_back_with_another_sensor_each_time(self, waited: Waited, context: Context) -> None:
        for _ in range(2):
            before = datetime.now(UTC)
            with pytest.raises(AirflowRescheduleException) as rescheduled:
                waited.make(mode="reschedule", poke_interval=60).execute(context)
            assert rescheduled.value.reschedule_date >= before + timedelta(seconds=60)
        waited.come_true()
        result = waited.make(mode="reschedule").execute(context)
        assert result == waited.make().execute(context)

    def test_deferring_leaves_it_to_a_trigger_that_another_process_makes(
        self, waited: Waited, context: Context
    ) -> None:
        with pytest.raises(TaskDeferred) as deferred:
            waited.make(deferrable=True).execute(context)
        trigger = KafkaWaitTrigger(**deferred.value.trigger.serialize()[1])

        async def wait() -> Any:
            waiting = asyncio.ensure_future(anext(trigger.run()))  # type: ignore[arg-type, call-overload]
            await asyncio.sleep(3 * INTERVAL_S)
            assert not waiting.done()
            await asyncio.to_thread(waited.come_true)
            return (await asyncio.wait_for(waiting, PATIENCE_S)).payload

        event = asyncio.run(wait())
        assert deferred.value.method_name == "execute_complete"
        assert resume(waited.make(deferrable=True), context, event) == waited.make().execute(context)


class TestPermanentFault:
    """What waiting can't mend, and what the user wants to become of it."""

    def test_ends_the_task_in_each_mode_alike(self, waited: Waited, context: Context) -> None:
        for mode in MODES.values():
            for flags, expected in FAILURES:
                context["task_state_store"].clear()
                with pytest.raises(expected) as ended:
                    waited.make(**waited.misspelt, **mode, **flags).execute(context)
                assert type(ended.value) is expected, (mode, flags)

    def test_ends_it_too_when_the_trigger_meets_it(self, waited: Waited, context: Context) -> None:
        """The worker's own check has been good."""
        with pytest.raises(TaskDeferred) as deferred:
            waited.make(deferrable=True).execute(context)
        arguments = deferred.value.trigger.serialize()[1]
        names = {"pipeline": "topics"}
        renamed = {names.get(name, name): "mispselt" if name == "group" else ["mispselt"] for name in waited.misspelt}
        arguments = arguments | {"condition": arguments["condition"] | renamed, "memory": None}
        event = event_of(KafkaWaitTrigger(**arguments))
        assert (event["status"], "mispselt" in event["message"]) == ("failed", True)
        for flags, expected in FAILURES:
            with pytest.raises(expected):
                resume(waited.make(deferrable=True, **flags), context, event)


class TestTimeout:
    """``soft_fail`` skips in each mode."""

    FLAGS = [({}, AirflowSensorTimeout), ({"soft_fail": True}, AirflowSkipException)]

    def test_of_poking_counts_from_the_start_of_the_task(self, waited: Waited, context: Context) -> None:
        for flags, expected in self.FLAGS:
            with pytest.raises(expected, match="timed out"):
                waited.make(timeout=2 * INTERVAL_S, **flags).execute(context)

    def test_of_rescheduling_counts_from_the_first_time(self, waited: Waited, context: Context) -> None:
        first = datetime.now(UTC) - timedelta(hours=1)
        context["ti"].get_first_reschedule_date = lambda _: first
        for flags, expected in self.FLAGS:
            with pytest.raises(AirflowRescheduleException):
                waited.make(mode="reschedule", timeout=7200, **flags).execute(context)
            with pytest.raises(expected, match="timed out"):
                waited.make(mode="reschedule", timeout=1800, **flags).execute(context)

    def test_of_deferring_is_what_is_left_of_it_and_ends_the_task_in_the_same_way(
        self, waited: Waited, context: Context
    ) -> None:
        for flags, expected in self.FLAGS:
            sensor = waited.make(deferrable=True, timeout=900, **flags)
            with pytest.raises(TaskDeferred) as deferred:
                sensor.execute(context)
            assert deferred.value.timeout is not None
            assert timedelta(0) < deferred.value.timeout < timedelta(seconds=900)
            with pytest.raises(expected):
                sensor.resume_execution("__fail__", {"error": "Trigger timeout"}, context)

    def test_that_is_over_before_the_first_check_is_does_not_defer(self, waited: Waited, context: Context) -> None:
        for flags, expected in self.FLAGS:
            with pytest.raises(expected, match="timed out"):
                waited.make(deferrable=True, timeout=0, **flags).execute(context)

    def test_means_the_same_in_each_mode_for_those_who_never_fail(self, context: Context) -> None:
        context["ti"].get_first_reschedule_date = lambda _: None
        ended = []
        for mode in MODES.values():
            sensor = KafkaGroupLagSensor(
                task_id="s", groups="starts-later", unknown_group="wait", timeout=0, never_fail=True, **mode
            )
            with pytest.raises((AirflowSensorTimeout, AirflowSkipException)) as timed_out:
                sensor.execute(context)
            ended.append(type(timed_out.value))
        assert len(set(ended)) == 1, ended


class TestOutage:
    """No broker answers when a deferrable sensor begins."""

    def test_leaves_the_worker_after_one_check_whatever_the_sensor_waits_for(
        self, waited: Waited, monkeypatch: pytest.MonkeyPatch, context: Context
    ) -> None:
        outage(monkeypatch)
        with pytest.raises(TaskDeferred) as deferred:
            waited.make(deferrable=True).execute(context)
        assert deferred.value.method_name == "execute_complete"

    def test_leaves_the_worker_soon_however_long_answers_are_waited_for_elsewhere(
        self, monkeypatch: pytest.MonkeyPatch, context: Context
    ) -> None:
        outage(monkeypatch, client_timeout_s=600)
        started = time.monotonic()
        with pytest.raises(TaskDeferred):
            KafkaOffsetsReachedSensor(task_id="s", group="g", deferrable=True).execute(context)
        assert time.monotonic() - started < PATIENCE_S

    @pytest.mark.parametrize("topics", [True, False])
    def test_leaves_it_too_where_only_kafka_can_tell_what_to_wait_for(
        self,
        ten: str,
        commit: Commit,
        produce: Produce,
        monkeypatch: pytest.MonkeyPatch,
        context: Context,
        topics: bool,
    ) -> None:
        """The target is the logs' end, which is asked for again and again. Then the triggerer waits for it."""
        group = new_name("group")
        commit(group, ten, 4)

        def sensor() -> KafkaOffsetsReachedSensor:
            arguments = {"topics": ten} if topics else {}
            return KafkaOffsetsReachedSensor(
                task_id="s", group=group, deferrable=True, poke_interval=INTERVAL_S, timeout=900, **arguments
            )

        with monkeypatch.context() as during:
            outage(during)
            with pytest.raises(TaskDeferred) as first:
                sensor().execute(context)
        with pytest.raises(TaskDeferred) as second:
            resume(sensor(), context, event_of(first.value.trigger), first.value)
        produce(ten, 0, [(None, None, b"later")])
        assert first.value.timeout is not None
        assert second.value.timeout is not None
        assert timedelta(0) < second.value.timeout < first.value.timeout
        commit(group, ten, 10)
        event = event_of(KafkaWaitTrigger(**second.value.trigger.serialize()[1]))
        assert resume(sensor(), context, event, second.value)["partitions"] == 1

    def test_that_ends_with_an_unknown_group_fails_the_task(
        self, monkeypatch: pytest.MonkeyPatch, context: Context
    ) -> None:
        for flags, expected in FAILURES:
            sensor = KafkaOffsetsReachedSensor(
                task_id="s", group="mispselt", deferrable=True, poke_interval=INTERVAL_S, **flags
            )
            with monkeypatch.context() as during:
                outage(during)
                with pytest.raises(TaskDeferred) as deferred:
                    sensor.execute(context)
            with pytest.raises(expected) as ended:
                resume(sensor, context, event_of(deferred.value.trigger), deferred.value)
            assert flags or "mispselt doesn't exist" in str(ended.value)


class TestTriggerer:
    def test_that_loses_the_trigger_fails_the_task_for_another_try(self, context: Context) -> None:
        with pytest.raises(TaskDeferralError):
            KafkaGroupLagSensor(task_id="s", groups="g", deferrable=True).resume_execution(
                "__fail__", {"error": "Trigger failure"}, context
            )


class TestStablePolls:
    def sensor(self, group: str, **options: Any) -> KafkaGroupLagSensor:
        return KafkaGroupLagSensor(task_id="s", groups=group, poke_interval=INTERVAL_S, **options)

    @pytest.fixture
    def group(self, ten: str, commit: Commit, context: Context) -> str:
        """A group that has caught up."""
        name = new_name("group")
        commit(name, ten, 10)
        context["ti"].get_first_reschedule_date = lambda _: None
        return name

    def reschedule(self, group: str, context: Context) -> bool:
        """Whether one more poke, in a process of its own, passes the third of three polls."""
        try:
            return bool(self.sensor(group, mode="reschedule", stable_polls=3).execute(context))
        except AirflowRescheduleException:
            return False

    def test_are_counted_on_from_reschedule_to_reschedule(
        self, ten: str, group: str, commit: Commit, context: Context
    ) -> None:
        passed = []
        for offset in (10, 10, 9, 10, 10, 10):
            commit(group, ten, offset)
            passed.append(self.reschedule(group, context))
        assert passed == [False, False, False, False, False, True]

    def test_are_counted_anew_by_another_try(self, group: str, context: Context) -> None:
        assert [self.reschedule(group, context) for _ in range(2)] == [False, False]
        context["ti"].try_number = 2
        assert [self.reschedule(group, context) for _ in range(3)] == [False, False, True]

    def test_are_counted_anew_where_another_version_kept_something_else(self, group: str, context: Context) -> None:
        context["task_state_store"].set("kafka_offsets.wait", {"polls": 2})
        assert [self.reschedule(group, context) for _ in range(3)] == [False, False, True]

    def test_are_counted_on_the_worker_where_airflow_keeps_nothing_between_pokes(
        self, group: str, context: Context
    ) -> None:
        """Airflow 3.1 and 3.2 have no store for a task's state."""
        del context["task_state_store"]  # type: ignore[typeddict-item]
        sensor = self.sensor(group, mode="reschedule", stable_polls=3)
        with capture_logs() as said:
            result = sensor.execute(context)
        assert result["groups"] == {group: 0}
        assert any("mode='reschedule' needs Airflow 3.3" in str(line) for line in said), said

    def test_begin_anew_on_the_triggerer(self, ten: str, group: str, context: Context) -> None:
        with pytest.raises(TaskDeferred) as deferred:
            self.sensor(group, deferrable=True, stable_polls=2).execute(context)
        assert deferred.value.trigger.serialize()[1]["memory"]["held"] == 0
        event = event_of(deferred.value.trigger)
        assert self.sensor(group, deferrable=True).execute_complete(context, event)["groups"] == {group: 0}
