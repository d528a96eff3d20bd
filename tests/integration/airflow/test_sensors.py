"""Sensors on a real broker: they pass when the claim is true, wait while it isn't, and fail when it can't be."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSkipException, TaskDeferred
from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.errors import InstantError, IntervalError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.sensors.group_lag import KafkaGroupLagSensor
from airflow_kafka_offsets.sensors.window_complete import KafkaWindowCompleteSensor
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from dev.kafka import Broker
from tests.integration.airflow.conftest import T0, T0_MS, Commit, Context, sasl, use_connection
from tests.integration.conftest import USERS, MakeTopic, Produce
from tests.patience import GRACE_S, PATIENCE_S


def event_of(trigger: KafkaWaitTrigger, timeout_s: float = 120) -> dict[str, Any]:
    async def first() -> TriggerEvent:
        return await anext(trigger.run())  # type: ignore[call-overload, no-any-return]  # an async generator

    return asyncio.run(asyncio.wait_for(first(), timeout_s)).payload  # type: ignore[no-any-return]


class TestGroupLag:
    def test_it_passes_at_zero_lag_and_pushes_the_totals(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"done-{ten}", ten, 10)
        assert KafkaGroupLagSensor(task_id="s", groups=f"done-{ten}").execute(context) == {
            "groups": {f"done-{ten}": 0},
            "max_lag": 0,
        }

    def test_it_waits_while_a_group_is_behind(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"behind-{ten}", ten, 4)
        assert not KafkaGroupLagSensor(task_id="s", groups=[f"behind-{ten}"]).poke(context)

    def test_a_little_lag_passes_where_it_is_allowed(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"nearly-{ten}", ten, 9)
        assert KafkaGroupLagSensor(task_id="s", groups=f"nearly-{ten}", max_lag=1).poke(context)

    def test_every_group_has_to_be_there(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"first-{ten}", ten, 10)
        commit(f"second-{ten}", ten, 9)
        assert not KafkaGroupLagSensor(task_id="s", groups=[f"first-{ten}", f"second-{ten}"]).poke(context)

    def test_a_misspelt_group_fails_at_once(self, ten: str, context: Context) -> None:
        """E19: it never passes, and burns no timeout."""
        with pytest.raises(AirflowFailException, match="GROUP_ID_NOT_FOUND"):
            KafkaGroupLagSensor(task_id="s", groups="mispselt").execute(context)

    def test_a_group_that_starts_later_can_be_waited_for(self, ten: str, commit: Commit, context: Context) -> None:
        sensor = KafkaGroupLagSensor(task_id="s", groups=f"starts-later-{ten}", unknown_group="wait")
        assert not sensor.poke(context)
        commit(f"starts-later-{ten}", ten, 10)
        assert sensor.poke(context)

    def test_a_partition_that_was_never_committed_counts_from_the_log_start(
        self, topic: MakeTopic, produce: Produce, commit: Commit, context: Context
    ) -> None:
        """E18."""
        name = topic(partitions=2)
        produce(name, 0, [(None, None, b"x")])
        produce(name, 1, [(None, None, b"x")] * 3)
        commit("half", name, 1)
        assert not KafkaGroupLagSensor(task_id="s", groups="half").poke(context)
        assert KafkaGroupLagSensor(task_id="s", groups="half", max_lag=3).poke(context).xcom_value["groups"] == {
            "half": 3
        }

    def test_a_commit_past_the_end_of_the_log_fails(self, ten: str, commit: Commit, context: Context) -> None:
        """E17: neither passed nor waited for."""
        commit(f"ahead-{ten}", ten, 99)
        with pytest.raises(AirflowFailException, match="past the log's end"):
            KafkaGroupLagSensor(task_id="s", groups=f"ahead-{ten}").execute(context)

    def test_an_unknown_topic_fails(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"known-{ten}", ten, 10)
        with pytest.raises(AirflowFailException, match="no-such-topic"):
            KafkaGroupLagSensor(task_id="s", groups=f"known-{ten}", topics=["no-such-topic"]).execute(context)


class TestModes:
    def test_rescheduling_gives_the_slot_back(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"behind-{ten}", ten, 4)
        context["ti"].get_first_reschedule_date = lambda _: None
        with pytest.raises(AirflowRescheduleException):
            KafkaGroupLagSensor(task_id="s", groups=f"behind-{ten}", mode="reschedule").execute(context)

    def test_deferring_waits_on_the_triggerer_until_it_is_true(
        self, ten: str, commit: Commit, context: Context
    ) -> None:
        commit(f"behind-{ten}", ten, 4)
        sensor = KafkaGroupLagSensor(task_id="s", groups=f"behind-{ten}", deferrable=True, poke_interval=0.2)
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute(context)
        path, arguments = deferred.value.trigger.serialize()
        assert path.endswith("KafkaWaitTrigger")

        async def wait() -> dict[str, Any]:
            trigger = KafkaWaitTrigger(**arguments)
            waiting = asyncio.ensure_future(anext(trigger.run()))  # type: ignore[arg-type, call-overload]
            await asyncio.sleep(1)
            assert not waiting.done()
            await asyncio.to_thread(commit, f"behind-{ten}", ten, 10)
            return (await asyncio.wait_for(waiting, PATIENCE_S)).payload  # type: ignore[no-any-return]

        event = asyncio.run(wait())
        result = sensor.execute_complete(context, event)
        assert result == {"groups": {f"behind-{ten}": 0}, "max_lag": 0}

    def test_a_deferrable_sensor_that_is_done_does_not_defer(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"done-{ten}", ten, 10)
        assert KafkaGroupLagSensor(task_id="s", groups=f"done-{ten}", deferrable=True).execute(context)

    @pytest.mark.parametrize("deferrable", [False, True])
    def test_a_permanent_fault_is_skipped_in_every_mode_where_the_user_says_so(
        self, ten: str, context: Context, deferrable: bool
    ) -> None:
        sensor = KafkaGroupLagSensor(task_id="s", groups="mispselt", soft_fail=True, deferrable=deferrable)
        with pytest.raises(AirflowSkipException):
            sensor.execute(context)

    def test_a_permanent_fault_on_the_triggerer_fails_the_task(self, ten: str, context: Context) -> None:
        sensor = KafkaGroupLagSensor(task_id="s", groups="mispselt", unknown_group="fail")
        condition = GroupsCaughtUp(("mispselt",)).to_json()
        trigger = KafkaWaitTrigger(kafka_conn_id="kafka_default", condition=condition, poll_interval_s=0.1)
        with pytest.raises(AirflowFailException, match="GROUP_ID_NOT_FOUND"):
            sensor.execute_complete(context, event_of(trigger))

    @pytest.mark.parametrize("event", [None, {}, {"status": "odd"}])
    def test_an_event_it_does_not_understand_fails(self, context: Context, event: dict[str, str] | None) -> None:
        with pytest.raises(AirflowFailException, match="doesn't understand"):
            KafkaGroupLagSensor(task_id="s", groups="g").execute_complete(context, event)


class TestFaults:
    def test_a_wrong_password_fails_at_once(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch, context: Context
    ) -> None:
        use_connection(monkeypatch, "locked", sasl(broker, "alice", "wrong"))
        started = time.monotonic()
        with pytest.raises(AirflowFailException) as failed:
            KafkaGroupLagSensor(task_id="s", groups="g", kafka_conn_id="locked").execute(context)
        assert time.monotonic() - started < GRACE_S
        assert "wrong" not in str(failed.value).split()

    def test_a_connection_of_our_own_type_takes_the_form_fields(
        self, ten: str, broker: Broker, monkeypatch: pytest.MonkeyPatch, commit: Commit, context: Context
    ) -> None:
        commit(f"done-{ten}", ten, 10)
        extra = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "ssl.ca.location": ""}
        use_connection(
            monkeypatch,
            "own",
            extra,
            conn_type="kafka_offsets",
            host=broker.sasl_bootstrap_servers,
            login="admin",
            password=USERS["admin"],
        )
        assert KafkaGroupLagSensor(task_id="s", groups=f"done-{ten}", kafka_conn_id="own").execute(context)

    def test_no_broker_is_waited_out(
        self, monkeypatch: pytest.MonkeyPatch, context: Context, caplog: pytest.LogCaptureFixture
    ) -> None:
        use_connection(monkeypatch, "nowhere", {"bootstrap.servers": "127.0.0.1:1"})
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "2")
        sensor = KafkaGroupLagSensor(task_id="s", groups="g", kafka_conn_id="nowhere")
        assert not sensor.poke(context)

    def test_an_unknown_key_of_a_connection_is_named(self, monkeypatch: pytest.MonkeyPatch, context: Context) -> None:
        use_connection(monkeypatch, "odd", {"bootstrap.servers": "127.0.0.1:1", "sasl.pasword": "x"})
        with pytest.raises(AirflowFailException, match=r"Connection odd: .*sasl\.pasword"):
            KafkaGroupLagSensor(task_id="s", groups="g", kafka_conn_id="odd").execute(context)

    @pytest.mark.parametrize("arguments", [{"groups": []}, {"groups": "g", "max_lag": -1}, {"groups": [1]}])
    def test_a_wrong_argument_fails_at_once(self, context: Context, arguments: dict[str, Any]) -> None:
        with pytest.raises(AirflowFailException):
            KafkaGroupLagSensor(task_id="s", **arguments).execute(context)


class TestWindowComplete:
    def sensor(self, topic: str, end: datetime, **arguments: Any) -> KafkaWindowCompleteSensor:
        start = (end - timedelta(hours=1)).isoformat()
        pipeline = KafkaPipeline("loads", topic)
        return KafkaWindowCompleteSensor(task_id="s", pipeline=pipeline, start=start, end=end.isoformat(), **arguments)

    def test_a_record_at_the_end_completes_the_window(self, ten: str, context: Context) -> None:
        result = self.sensor(ten, T0 + timedelta(seconds=9)).execute(context)
        assert (result["partitions_passed"], result["assumed_idle"]) == (1, [])

    def test_without_one_it_waits(self, ten: str, context: Context) -> None:
        assert not self.sensor(ten, T0 + timedelta(seconds=10)).poke(context)

    def test_one_idle_partition_holds_the_window_open(
        self, topic: MakeTopic, produce: Produce, context: Context
    ) -> None:
        """E8."""
        name = topic(partitions=2, config={"retention.ms": "-1"})
        produce(name, 0, [(T0_MS, None, b"x")])
        assert not self.sensor(name, T0).poke(context)
        result = self.sensor(name, T0, idle="assume_after", idle_after=timedelta(minutes=1)).poke(context)
        assert result
        assert result.xcom_value["assumed_idle"] == [f"{name}-1"]

    def test_an_end_in_the_future_is_waited_for(self, ten: str, context: Context) -> None:
        """E36."""
        assert not self.sensor(ten, datetime.now(UTC) + timedelta(hours=1), idle="assume_after", idle_after=0).poke(
            context
        )

    def test_the_interval_of_the_run_is_the_default(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0 - timedelta(hours=1), "data_interval_end": T0}
        assert KafkaWindowCompleteSensor(task_id="s", pipeline=KafkaPipeline("loads", ten)).poke(context)

    def test_it_reschedules_and_defers_as_the_other_sensor_does(self, ten: str, context: Context) -> None:
        context["ti"].get_first_reschedule_date = lambda _: None
        late = T0 + timedelta(seconds=10)
        with pytest.raises(AirflowRescheduleException):
            self.sensor(ten, late, mode="reschedule").execute(context)
        with pytest.raises(TaskDeferred) as deferred:
            self.sensor(ten, late, deferrable=True, poke_interval=0.1).execute(context)
        arguments = deferred.value.trigger.serialize()[1]
        assert arguments["condition"]["kind"] == "window_complete"
        arguments["condition"]["instant_ms"] -= 1000  # the record at nine seconds
        assert event_of(KafkaWaitTrigger(**arguments))["status"] == "done"

    def test_an_empty_interval_names_the_timetables_that_give_one(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0, "data_interval_end": T0}
        with pytest.raises(AirflowFailException, match="CronDataIntervalTimetable") as failed:
            KafkaWindowCompleteSensor(task_id="s", pipeline=KafkaPipeline("loads", ten)).execute(context)
        assert isinstance(failed.value.__cause__, IntervalError)

    def test_a_naive_end_is_refused(self, ten: str, context: Context) -> None:
        pipeline = KafkaPipeline("loads", ten)
        sensor = KafkaWindowCompleteSensor(task_id="s", pipeline=pipeline, start="2026-11-20", end="2026-11-21")
        with pytest.raises(AirflowFailException, match="no time zone") as failed:
            sensor.execute(context)
        assert isinstance(failed.value.__cause__, InstantError)
