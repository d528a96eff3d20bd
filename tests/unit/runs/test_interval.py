"""Which window a run is about: explicit instants, its partition date, or its data interval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk import (
    Asset,
    AssetOrTimeSchedule,
    CronDataIntervalTimetable,
    CronPartitionTimetable,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from airflow.timetables.interval import CronDataIntervalTimetable as CoreCronDataIntervalTimetable
from airflow.timetables.trigger import CronPartitionTimetable as CoreCronPartitionTimetable
from airflow.timetables.trigger import CronTriggerTimetable as CoreCronTriggerTimetable
from airflow.utils.types import DagRunType

from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.runs.interval import RunInterval, run_interval

SIX = datetime(2026, 11, 21, 6, tzinfo=UTC)
SEVEN = SIX + timedelta(hours=1)
OF_THE_SCHEDULE = (DagRunType.SCHEDULED, DagRunType.BACKFILL_JOB)
HOUR = RunInterval(instant_ms(SIX), instant_ms(SEVEN))


def partitioned(timetable: Any, date: datetime) -> dict[str, Any]:
    return {"partition_date": date, "dag": SimpleNamespace(timetable=timetable)}


def test_explicit_instants_win() -> None:
    context = {"data_interval_start": SIX - timedelta(days=1), "data_interval_end": SIX}
    assert run_interval(context, SIX.isoformat(), SEVEN.isoformat()) == HOUR
    assert run_interval(context, SIX, SEVEN) == HOUR


def test_pendulum_datetimes_are_taken_as_airflow_gives_them() -> None:
    context = {"data_interval_start": pendulum.instance(SIX), "data_interval_end": pendulum.instance(SEVEN)}
    assert run_interval(context, None, None) == HOUR


def test_a_partition_runs_to_the_next_tick_of_its_schedule() -> None:
    timetable = CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1)
    assert run_interval(partitioned(timetable, SIX), None, None) == HOUR


@pytest.mark.parametrize(
    ("date", "hours"),
    [("2026-03-08", 23), ("2026-11-01", 25), ("2026-11-21", 24)],
    ids=["clocks go forward", "clocks go back", "an ordinary day"],
)
def test_a_local_day_has_as_many_hours_as_its_zone_gave_it(date: str, hours: int) -> None:
    """S26: daylight saving."""
    timetable = CronPartitionTimetable("0 0 * * *", timezone="America/New_York", run_offset=-1)
    day = pendulum.parse(date, tz="America/New_York")
    assert isinstance(day, pendulum.DateTime)
    found = run_interval(partitioned(timetable, day.in_timezone("UTC")), None, None)
    assert found.end_ms - found.start_ms == hours * 3_600_000


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"data_interval_start": None, "data_interval_end": None},
        {"data_interval_start": SIX, "data_interval_end": SIX},
    ],
    ids=["no interval", "an empty context", "a bare cron string"],
)
def test_a_run_without_an_interval_names_the_timetables_that_give_one(context: dict[str, Any]) -> None:
    with pytest.raises(IntervalError) as refused:
        run_interval(context, None, None)
    for name in ("CronDataIntervalTimetable", "CronTriggerTimetable", "CronPartitionTimetable"):
        assert name in str(refused.value)


def test_the_timetables_that_the_message_names_are_written_right() -> None:
    assert CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1))
    assert CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1)


@pytest.mark.parametrize("kind", ["manual", "scheduled", "asset_triggered"])
def test_a_partition_that_the_schedule_does_not_have_is_refused_with_the_key_of_the_one_around_it(kind: str) -> None:
    core = CoreCronPartitionTimetable("0 0 * * *", timezone="America/New_York", run_offset=-1)
    date = core.resolve_partition_date("2026-11-21T05:30:00")
    assert date is not None
    for timetable in (core, CronPartitionTimetable("0 0 * * *", timezone="America/New_York", run_offset=-1)):
        with pytest.raises(IntervalError) as refused:
            run_interval(partitioned(timetable, date) | {"dag_run": SimpleNamespace(run_type=kind)}, None, None)
        assert "2026-11-21T10:30:00.000Z" in str(refused.value)
        assert "key 2026-11-21T00:00:00" in str(refused.value)


class TestFixedLength:
    """CronTriggerTimetable's interval= is a length, and local days have 23, 24 and 25 hours (S26)."""

    BERLIN = "Europe/Berlin"
    DAILY = CronTriggerTimetable("0 0 * * *", timezone=BERLIN, interval=timedelta(days=1))

    def scheduled(self, timetable: Any, end: datetime, hours: int = 24) -> RunInterval:
        context = {
            "dag": SimpleNamespace(dag_id="loads", timetable=timetable),
            "dag_run": SimpleNamespace(run_type="scheduled"),
            "data_interval_start": end - timedelta(hours=hours),
            "data_interval_end": end,
        }
        return run_interval(context, None, None)

    @pytest.mark.parametrize(
        ("end", "day"),
        [
            (datetime(2026, 10, 25, 23, tzinfo=UTC), ("2026-10-24T22:00:00Z", "2026-10-25T22:59:59Z")),
            (datetime(2026, 3, 29, 22, tzinfo=UTC), ("2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z")),
        ],
        ids=["25 hours", "23 hours"],
    )
    def test_a_window_that_starts_at_no_tick_is_refused_with_the_timetable_and_the_command_that_load_that_day(
        self, end: datetime, day: tuple[str, str]
    ) -> None:
        with pytest.raises(IntervalError) as refused:
            self.scheduled(self.DAILY, end)
        assert "CronDataIntervalTimetable('0 0 * * *', timezone='Europe/Berlin')" in str(refused.value)
        assert f"--dag-id loads --from-date {day[0]} --to-date {day[1]}" in str(refused.value)

    def test_several_crons_of_one_length_are_refused_too(self) -> None:
        twice = MultipleCronTriggerTimetable(
            "0 0 * * *", "0 12 * * *", timezone=self.BERLIN, interval=timedelta(hours=12)
        )
        assert self.scheduled(twice, datetime(2026, 10, 24, 10, tzinfo=UTC), 12)
        with pytest.raises(IntervalError, match="CronDataIntervalTimetable"):
            self.scheduled(twice, datetime(2026, 10, 25, 11, tzinfo=UTC), 12)

    def test_days_of_24_hours_hours_and_utc_are_taken(self) -> None:
        assert self.scheduled(self.DAILY, datetime(2026, 10, 24, 22, tzinfo=UTC))
        hourly = CronTriggerTimetable("0 * * * *", timezone=self.BERLIN, interval=timedelta(hours=1))
        for hour in range(24):
            assert self.scheduled(hourly, datetime(2026, 10, 25, hour, tzinfo=UTC), 1)
        utc = CronTriggerTimetable("0 0 * * *", timezone="UTC", interval=timedelta(days=1))
        assert self.scheduled(utc, datetime(2026, 10, 26, tzinfo=UTC))

    def test_a_run_of_an_earlier_schedule_is_taken(self) -> None:
        assert self.scheduled(self.DAILY, datetime(2026, 10, 25, 23, tzinfo=UTC), 1)

    def test_start_and_end_may_leave_time_out(self) -> None:
        context = {"dag": SimpleNamespace(dag_id="loads", timetable=self.DAILY)}
        end = datetime(2026, 10, 25, 23, tzinfo=UTC)
        assert run_interval(context, end - timedelta(days=1), end)


def test_an_inverted_interval_is_refused() -> None:
    with pytest.raises(IntervalError, match="after its end"):
        run_interval({}, SEVEN, SIX)


def test_one_of_two_instants_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="go together"):
        run_interval({}, SIX, None)


def test_a_partition_without_a_cron_schedule_is_refused() -> None:
    with pytest.raises(IntervalError, match="no cron expression"):
        run_interval(partitioned(SimpleNamespace(), SIX), None, None)


class TestByHand:
    """Runs that somebody started, with Airflow's own timetables."""

    HOURLY = CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1))

    def context(self, timetable: Any, *interval: datetime | None) -> dict[str, Any]:
        start, end = interval or (None, None)
        return {
            "dag": SimpleNamespace(dag_id="loads", timetable=timetable),
            "dag_run": SimpleNamespace(run_type="manual"),
            "data_interval_start": start,
            "data_interval_end": end,
            "partition_date": None,
        }

    def refused(self, timetable: Any, *interval: datetime | None) -> str:
        with pytest.raises(IntervalError) as refused:
            run_interval(self.context(timetable, *interval), None, None)
        return str(refused.value)

    def test_timetables_of_the_older_family_are_known_too(self) -> None:
        older = CoreCronDataIntervalTimetable("0 * * * *", timezone="UTC")
        assert "isn't an interval of the schedule" in self.refused(older, SIX + timedelta(minutes=7), SEVEN)
        assert "airflow backfill create" in self.refused(older)

    def test_an_interval_of_the_schedule_is_taken(self) -> None:
        assert run_interval(self.context(self.HOURLY, SIX, SEVEN), None, None) == HOUR

    def test_one_that_the_schedule_does_not_cut_is_refused_with_the_command_that_loads_the_last_window(self) -> None:
        late = timedelta(minutes=17, seconds=23)
        said = self.refused(self.HOURLY, SIX + late, SEVEN + late)
        assert "2026-11-21T06:17:23.000Z to 2026-11-21T07:17:23.000Z, isn't an interval of the schedule" in said
        assert "2026-11-21T06:00:00.000Z to 2026-11-21T07:00:00.000Z: airflow backfill create --dag-id loads" in said
        assert "--to-date 2026-11-21T07:00:00Z" in said

    @pytest.mark.parametrize(
        "timetable",
        [
            HOURLY,
            CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
            MultipleCronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1)),
        ],
    )
    def test_several_intervals_of_the_schedule_are_refused(self, timetable: Any) -> None:
        """Each of the schedule's own runs would then fail, as its window overlaps the long one."""
        said = self.refused(timetable, SIX - timedelta(hours=6), SIX)
        assert "2026-11-21T00:00:00.000Z to 2026-11-21T06:00:00.000Z, isn't an interval of the schedule" in said

    def test_intervals_that_are_longer_than_from_tick_to_tick_are_taken_as_the_schedule_makes_them(self) -> None:
        weekly = CronTriggerTimetable("0 6 * * *", timezone="UTC", interval=timedelta(days=7))
        assert run_interval(self.context(weekly, SIX - timedelta(days=7), SIX), None, None)
        assert "isn't an interval" in self.refused(weekly, SIX - timedelta(days=8), SIX)

    @pytest.mark.parametrize("kind", ["scheduled", "backfill"])
    def test_the_schedules_own_runs_are_taken_with_the_interval_of_an_earlier_schedule(self, kind: str) -> None:
        late = timedelta(minutes=17)
        context = self.context(self.HOURLY, SIX + late, SEVEN + late)
        assert run_interval(context | {"dag_run": SimpleNamespace(run_type=kind)}, None, None)

    @pytest.mark.parametrize("kind", [kind.value for kind in DagRunType if kind not in OF_THE_SCHEDULE])
    @pytest.mark.parametrize(
        "timetable",
        [HOURLY, AssetOrTimeSchedule(timetable=HOURLY, assets=[Asset("flights")])],
        ids=["time", "or asset"],
    )
    def test_every_other_kind_of_run_is_checked(self, kind: str, timetable: Any) -> None:
        """TriggerDagRunOperator and the button "Materialize" infer an interval from the moment, as manual runs do."""
        now = pendulum.datetime(2026, 11, 21, 10, 17, 23)
        inferred = CoreCronTriggerTimetable(
            "0 * * * *", timezone="UTC", interval=timedelta(hours=1)
        ).infer_manual_data_interval(run_after=now)
        context = self.context(timetable, inferred.start, inferred.end)
        with pytest.raises(IntervalError, match="overlap the schedule's own"):
            run_interval(context | {"dag_run": SimpleNamespace(run_type=kind)}, None, None)

    @pytest.mark.parametrize("timetable", [HOURLY, CronDataIntervalTimetable("0 * * * *", timezone="UTC")])
    def test_without_a_logical_date_it_is_told_of_backfills_and_not_of_the_timetable_that_it_has(
        self, timetable: Any
    ) -> None:
        said = self.refused(timetable)
        assert "without a logical date" in said
        assert "airflow backfill create --dag-id loads --from-date" in said
        assert "Timetable" not in said
        assert ("or trigger it with a logical date" in said) is not (timetable is self.HOURLY)

    def test_the_logical_date_that_it_names_gives_the_window_that_it_names(self) -> None:
        import re

        from airflow.timetables.interval import CronDataIntervalTimetable as Core

        said = self.refused(CronDataIntervalTimetable("0 * * * *", timezone="UTC"))
        start, end = re.search(r"\((\S+) to (\S+)\)", said).groups()  # type: ignore[union-attr]
        date = re.search(r"after the window's end, (\S+)", said)[1]  # type: ignore[index]
        inferred = Core("0 * * * *", timezone="UTC").infer_manual_data_interval(run_after=pendulum.parse(date))  # type: ignore[arg-type]
        assert (inferred.start, inferred.end) == (pendulum.parse(start), pendulum.parse(end))

    def test_without_a_partition_key_it_is_told_of_one(self) -> None:
        said = self.refused(CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1))
        assert "without a partition key" in said
        assert "such as 20" in said

    def test_an_airflow_that_tells_no_partition_date_is_no_run_without_a_key(self) -> None:
        context = self.context(CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1))
        del context["partition_date"]
        with pytest.raises(IntervalError, match=r"partition date to its tasks from 3\.3 on; this Airflow is older"):
            run_interval(context, None, None)

    def test_where_no_timetable_gives_intervals_those_that_do_are_named(self) -> None:
        assert "CronDataIntervalTimetable" in self.refused(CronTriggerTimetable("0 * * * *", timezone="UTC"))
