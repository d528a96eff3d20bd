"""Timestamps that are out of order, from the future or the broker's own, and days that don't have 24 hours."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import CronPartitionTimetable
from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.errors import FutureRecordError, InstantError, OffsetsError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import instant_ms, iso_instant, now_ms
from airflow_kafka_offsets.operators.alerts import KafkaRetentionWatchOperator
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaNewDataSensor, KafkaWindowCompleteSensor
from tests.integration.airflow.conftest import (
    DAY_MS,
    T0_MS,
    Commit,
    Context,
    Resolve,
    Run,
    at,
    fails_with,
    use_connection,
)
from tests.integration.airflow.windows.conftest import HOUR_S, Increment, Said, evidence, manifest_of, ranges, stamped
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import offsets_are
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.ledger.loads import windows_of


class TestOutOfOrder:
    def test_records_hours_out_of_order_are_in_one_window_each(
        self, topic: MakeTopic, produce: Produce, resolve: Resolve
    ) -> None:
        """E4, S3: a late record is in a later window, whatever order the windows resolve in."""
        name = topic()
        produce(name, 0, stamped(*(hour * HOUR_S for hour in (0, 3, 1, 4, 2, 5))))
        found = {hour: resolve(name, at(hour * HOUR_S), at((hour + 1) * HOUR_S)) for hour in (5, 0, 3, 1, 4, 2)}
        assert [ranges(found[hour])[0][1:] for hour in range(6)] == [(0, 1), (1, 1), (1, 1), (1, 3), (3, 5), (5, 6)]


class TestWithoutTimestamps:
    """Some clients write records without one: no instant is before or after them."""

    def test_alone_in_a_log_they_are_in_no_window_of_time_which_is_said_and_in_increments(
        self, topic: MakeTopic, produce: Produce, resolve: Resolve, increment: Increment
    ) -> None:
        """E42"""
        name = topic()
        produce(name, 0, [(-1, None, b"x")] * 10)
        with pytest.raises(
            AirflowFailException, match=rf"{name}-0 have no timestamps.*KafkaResolveIncrement"
        ) as failed:
            resolve(name, at(0), at(60))
        assert fails_with(InstantError, failed)
        assert ranges(increment(name, "one")) == [(0, 0, 10)]

    def test_a_partition_that_has_none_at_all_does_not_hide_behind_another(
        self, topic: MakeTopic, produce: Produce, resolve: Resolve
    ) -> None:
        """E42"""
        name = topic(partitions=3)
        produce(name, 0, stamped(0, 10))
        produce(name, 1, [(-1, None, b"x")])
        with pytest.raises(AirflowFailException, match=f"The records of {name}-1 have"):
            resolve(name, at(0), at(60))

    def test_among_others_they_are_in_the_window_of_those_beside_them(
        self, topic: MakeTopic, produce: Produce, resolve: Resolve
    ) -> None:
        """E42"""
        name = topic()
        bare = (-1, None, b"x")
        first, second, third = stamped(0, 1, 60)
        produce(name, 0, [first, bare, second, bare, third, bare])
        assert [ranges(resolve(name, *each)) for each in ((at(0), at(60)), (at(60), at(120)))] == [
            [(0, 0, 4)],
            [(0, 4, 6)],
        ]

    @pytest.mark.parametrize("idle", [{}, {"idle": "assume_after", "idle_after": 5}])
    def test_are_not_waited_for(
        self, topic: MakeTopic, produce: Produce, context: Context, idle: dict[str, Any]
    ) -> None:
        """E42"""
        name = topic()
        produce(name, 0, [(-1, None, b"x")] * 10)
        sensor = KafkaWindowCompleteSensor(
            task_id="s", pipeline=KafkaPipeline("loads", name), start=at(0), end=at(60), **idle
        )
        with pytest.raises(AirflowFailException, match=f"{name}-0 have no timestamps"):
            sensor.execute(context)


class TestFutureRecord:
    @pytest.fixture
    def ahead(self, topic: MakeTopic, produce: Produce) -> str:
        """A record of five hours from now stands between one of T0 and one of T0 + 25 s."""
        name = topic(config={"message.timestamp.after.max.ms": str(DAY_MS)})
        produce(name, 0, [*stamped(0), (now_ms() + 5 * HOUR_S * 1000, None, b"x"), *stamped(25)])
        return name

    def test_fails_the_task_and_nothing_is_stored(self, ahead: str, resolve: Resolve, ledger: Ledger) -> None:
        """E5, S7: what comes until its time would be in no window of its own."""
        with pytest.raises(AirflowFailException, match=rf"{ahead}-0 at offset 1 .*on_future_record='warn'") as failed:
            resolve(ahead, at(0), at(20))
        assert fails_with(FutureRecordError, failed)
        assert (windows_of(ledger), ledger.state.snapshots) == ([], {})

    def test_is_warned_of_where_the_user_goes_on_and_later_windows_are_empty(
        self, ahead: str, resolve: Resolve, said: Said
    ) -> None:
        """E5, S7"""
        first = resolve(ahead, at(0), at(20), on_future_record="warn")
        assert f"There are records from the future, {ahead}-0 at offset 1" in said()
        second = resolve(ahead, at(20), at(40), on_future_record="warn")
        assert (ranges(first), ranges(second)) == ([(0, 0, 1)], [(0, 1, 1)])
        assert "records from the future" in said()

    def test_is_refused_in_a_stored_snapshot_too(self, ahead: str, resolve: Resolve, ledger: Ledger) -> None:
        """E5: who stored it has warned; who pins another window that ends there is to fail. What is pinned stays."""
        pinned = resolve(ahead, at(20), at(40), on_future_record="warn")
        with pytest.raises(AirflowFailException, match="records from the future"):
            resolve(ahead, at(0), at(20))
        assert [each.name for each in windows_of(ledger)] == [pinned["window"]]
        assert resolve(ahead, at(20), at(40)) == pinned


class TestAnyTimestamp:
    @pytest.fixture
    def odd(self, topic: MakeTopic, produce: Produce) -> str:
        """Records of T0, of microseconds in place of milliseconds, of long before Christ, and of T0 + 25 s."""
        name = topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        produce(name, 0, [*stamped(0), (T0_MS * 1000, None, b"x"), (-(10**16), None, b"x"), *stamped(25)])
        return name

    def test_is_named_where_it_stands_in_the_way(self, odd: str, resolve: Resolve) -> None:
        """E5, E35"""
        with pytest.raises(
            AirflowFailException, match=rf"{odd}-0 at offset 1 \(\+588\d\d-.*on_future_record"
        ) as failed:
            resolve(odd, at(0), at(20))
        assert fails_with(FutureRecordError, failed)

    def test_gives_a_window_all_the_same_where_the_user_goes_on(self, odd: str, resolve: Resolve, said: Said) -> None:
        """E5: resolving, retention, and what a lag sensor says of its age."""
        first = resolve(odd, at(0), at(20), on_future_record="warn")
        assert f"There are records from the future, {odd}-0 at offset 1 (+588" in said()
        second = resolve(odd, at(20), at(40), on_future_record="warn")
        assert (ranges(first), ranges(second)) == ([(0, 0, 1)], [(0, 1, 1)])
        KafkaRetentionWatchOperator(task_id="w", pipeline=KafkaPipeline("loads")).execute({})

    def test_is_told_by_the_sensors(self, odd: str, increment: Increment, commit: Commit, context: Context) -> None:
        window = increment(odd, "run-1")
        assert ranges(window) == [(0, 0, 4)]
        assert not KafkaNewDataSensor(task_id="n", pipeline=KafkaPipeline("loads", odd), since=window).poke(context)
        for offset in (1, 2):
            commit("readers", odd, offset)
            sensor = KafkaGroupLagSensor(task_id="l", groups="readers", topics=odd, max_age=60)
            assert not sensor.poke(context), "how old the record is nobody knows"
        commit("readers", odd, 4)
        assert sensor.poke(context)


class TestLogAppendTime:
    def test_windows_go_by_the_brokers_clock(self, topic: MakeTopic, produce: Produce, resolve: Resolve) -> None:
        """E6, S8: whatever producers said; and the manifest tells which of the two it is."""
        name = topic(config={"message.timestamp.type": "LogAppendTime"})
        before = now_ms()
        produce(name, 0, stamped(9, 0, 5))
        after = now_ms() + 1
        time.sleep(0.01)
        window = resolve(name, iso_instant(before), iso_instant(after))
        assert (ranges(window), evidence(window)) == ([(0, 0, 3)], [("matched", "log_end")])
        assert manifest_of(window).topics[name].timestamp_type == "LogAppendTime"

    def test_otherwise_they_go_by_the_producers(self, ten: str, resolve: Resolve) -> None:
        """E7, S8"""
        window = resolve(ten, at(2), at(7))
        assert manifest_of(window).topics[ten].timestamp_type == "CreateTime"


class TestOtherBrokers:
    def test_an_answer_with_an_older_record_fails_the_task_and_nothing_is_stored(
        self, resolve: Resolve, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """E37, S30: not Apache Kafka's answer, as some have given of compressed batches; every look-up is checked."""
        with ScriptedCluster({"a": [0]}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5, timestamp=T0_MS - 1))
            use_connection(monkeypatch, "other", {"bootstrap.servers": cluster.bootstrap_servers})
            with pytest.raises(AirflowFailException, match=r"a-0: .*older than asked") as failed:
                resolve("a", at(0), at(5), kafka_conn_id="other")
        assert fails_with(OffsetsError, failed)
        assert (windows_of(ledger), ledger.state.snapshots) == ([], {})


class TestDaylightSaving:
    @pytest.mark.parametrize(
        ("start", "end", "hours"),
        [
            ("2025-03-29T00:00:00+01:00", "2025-03-31T00:00:00+02:00", [24, 23]),
            ("2025-10-25T00:00:00+02:00", "2025-10-27T00:00:00+01:00", [24, 25]),
        ],
        ids=["clocks go forward", "clocks go back"],
    )
    def test_a_local_day_holds_the_records_of_as_many_hours_as_it_has(
        self,
        topic: MakeTopic,
        produce: Produce,
        run: Run,
        context: Context,
        start: str,
        end: str,
        hours: list[int],
    ) -> None:
        """S26: by the zone of the timetable; the command cuts days as the run of a Dag does."""
        name, cron, zone = topic(), "0 0 * * *", "Europe/Berlin"
        first = instant_ms(datetime.fromisoformat(start))
        produce(name, 0, [(first + hour * HOUR_S * 1000, None, b"x") for hour in range(sum(hours))])
        between = ("--start", start, "--end", end, "--split", "1d", "--timezone", zone, "-o", "json")
        code, out, _ = run("ledger", "resolve", "loads", "--topics", name, *between)
        days = json.loads(out)
        assert (code, [each["offsets"] for each in days]) == (0, hours)
        dag = SimpleNamespace(timetable=CronPartitionTimetable(cron, timezone=zone, run_offset=-1))
        context |= {"dag": dag, "partition_date": datetime.fromisoformat(start) + timedelta(days=1)}
        window = KafkaResolveWindowOperator(task_id="r", pipeline=KafkaPipeline("loads", name)).execute(context)
        assert (window["window"], window["offsets"]) == (days[1]["window"], hours[1])


def test_a_tombstone_is_a_record(topic: MakeTopic, produce: Produce, resolve: Resolve) -> None:
    """S27: a key without a value is an offset of the window."""
    name = topic()
    produce(name, 0, [(T0_MS, b"k", b"v"), (T0_MS + 1000, b"k", None)])
    assert resolve(name, at(0), at(1.5))["offsets"] == 2
