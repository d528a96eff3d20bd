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
    DeltaDataIntervalTimetable,
    MultipleCronTriggerTimetable,
)
from airflow.timetables.interval import CronDataIntervalTimetable as CoreCronDataIntervalTimetable
from airflow.timetables.trigger import (
    CronPartitionTimetable as CoreCronPartitionTimetable,
    CronTriggerTimetable as CoreCronTriggerTimetable,
)
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
    for name in ("CronDataIntervalTimetable", "CronTriggerTimetable", "CronPartitionTimetable", "start= and end="):
        assert name in str(refused.value)


def test_the_timetables_that_the_message_names_are_written_right() -> None:
    assert CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1))
    assert CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1)


@pytest.mark.parametrize("family", [CronPartitionTimetable, CoreCronPartitionTimetable])
def test_a_partition_that_the_schedule_does_not_have_is_refused(family: Any) -> None:
    core = CoreCronPartitionTimetable("0 0 * * *", timezone="America/New_York", run_offset=-1)
    date = core.resolve_partition_date("2026-11-21T05:30:00")
    assert date is not None
    timetable = family("0 0 * * *", timezone="America/New_York", run_offset=-1)
    with pytest.raises(IntervalError, match=r"2026-11-21T10:30:00\.000Z, isn't the start of a partition"):
        run_interval(partitioned(timetable, date), None, None)


def test_a_partition_without_a_cron_schedule_is_refused() -> None:
    with pytest.raises(IntervalError, match="no cron expression"):
        run_interval(partitioned(SimpleNamespace(), SIX), None, None)


def test_an_inverted_interval_is_refused() -> None:
    with pytest.raises(IntervalError, match="after its end"):
        run_interval({}, SEVEN, SIX)


def test_one_of_two_instants_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="go together"):
        run_interval({}, SIX, None)


class TestRunsThatTheScheduleDidNotMake:
    """With Airflow's own timetables."""

    HOURLY = CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1))
    WEEKLY = CronTriggerTimetable("0 6 * * *", timezone="UTC", interval=timedelta(days=7))
    BY_START = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
    LATE = timedelta(minutes=17, seconds=23)

    def context(self, timetable: Any, start: datetime, end: datetime, kind: str = "manual") -> dict[str, Any]:
        return {
            "dag": SimpleNamespace(dag_id="loads", timetable=timetable),
            "dag_run": SimpleNamespace(run_type=kind),
            "data_interval_start": start,
            "data_interval_end": end,
            "partition_date": None,
        }

    @pytest.mark.parametrize(
        ("timetable", "start"),
        [
            (HOURLY, SIX),
            (BY_START, SIX),
            (CoreCronDataIntervalTimetable("0 * * * *", timezone="UTC"), SIX),
            (AssetOrTimeSchedule(timetable=HOURLY, assets=[Asset("flights")]), SIX),
            (WEEKLY, SIX - timedelta(days=7)),
        ],
    )
    def test_an_interval_of_the_schedule_is_taken(self, timetable: Any, start: datetime) -> None:
        end = SEVEN if start == SIX else SIX
        assert run_interval(self.context(timetable, start, end), None, None) == RunInterval(
            instant_ms(start), instant_ms(end)
        )

    @pytest.mark.parametrize(
        ("timetable", "start", "end"),
        [
            (HOURLY, SIX + LATE, SEVEN + LATE),
            (CoreCronDataIntervalTimetable("0 * * * *", timezone="UTC"), SIX + LATE, SEVEN),
            (HOURLY, SIX - timedelta(hours=6), SIX),
            (BY_START, SIX - timedelta(hours=6), SIX),
            (WEEKLY, SIX - timedelta(days=8), SIX),
            (MultipleCronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1)), SIX, SEVEN),
            (DeltaDataIntervalTimetable(timedelta(hours=1)), SIX, SEVEN),
        ],
        ids=["late", "older", "several: end", "several: start", "too long", "several crons", "no cron"],
    )
    def test_any_other_is_named_by_the_run_itself(self, timetable: Any, start: datetime, end: datetime) -> None:
        with pytest.raises(IntervalError, match=r"isn't known to be an interval of the schedule.* start= and end="):
            run_interval(self.context(timetable, start, end), None, None)
        assert run_interval(self.context(timetable, start, end), start, end)

    @pytest.mark.parametrize("kind", ["scheduled", "backfill"])
    def test_the_schedules_own_runs_are_taken_with_the_interval_of_an_earlier_schedule(self, kind: str) -> None:
        assert run_interval(self.context(self.HOURLY, SIX + self.LATE, SEVEN + self.LATE, kind), None, None)

    @pytest.mark.parametrize("kind", [kind.value for kind in DagRunType if kind not in OF_THE_SCHEDULE])
    def test_what_airflow_infers_from_the_moment_is_checked_for_every_other_kind(self, kind: str) -> None:
        """TriggerDagRunOperator and the button "Materialize" infer an interval, as manual runs do."""
        now = pendulum.datetime(2026, 11, 21, 10, 17, 23)
        inferred = CoreCronTriggerTimetable(
            "0 * * * *", timezone="UTC", interval=timedelta(hours=1)
        ).infer_manual_data_interval(run_after=now)
        with pytest.raises(IntervalError, match="cross the schedule's own"):
            run_interval(self.context(self.HOURLY, inferred.start, inferred.end, kind), None, None)
