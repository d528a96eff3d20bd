"""Which window a run is about: explicit instants, its partition date, or its data interval; and the pieces of one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

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
from airflow_kafka_offsets.runs.interval import RunInterval, pieces_of, run_interval, zone_of

SIX = datetime(2026, 11, 21, 6, tzinfo=UTC)
SEVEN = SIX + timedelta(hours=1)
OF_THE_SCHEDULE = (DagRunType.SCHEDULED, DagRunType.BACKFILL_JOB)
HOUR = RunInterval(instant_ms(SIX), instant_ms(SEVEN))
BERLIN, LORD_HOWE, ONE = ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe"), timedelta(hours=1)


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


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("cron", ["0 * * * *", "0 0 * * *", "30 2 * * *", "0 2 * * *", "0 1,2,3 * * *", "*/30 2 * * *"])
def test_every_partition_that_airflow_makes_is_taken_also_where_clocks_change(zone: str, cron: str) -> None:
    """S26"""
    airflows = CoreCronPartitionTimetable(cron, timezone=zone)
    for month, day in ((3, 8), (3, 29), (10, 25), (11, 1)):
        tick = airflows._align_to_next(pendulum.datetime(2026, month, day))
        while tick < pendulum.datetime(2026, month, day).add(days=1):
            following = airflows._get_next(tick)
            assert run_interval(partitioned(airflows, tick), None, None) == RunInterval(
                instant_ms(tick), instant_ms(following)
            )
            tick = following


@pytest.mark.parametrize(
    ("zone", "moment"),
    [("UTC", SIX + timedelta(minutes=1)), ("Australia/Lord_Howe", datetime(2026, 4, 4, 17, 10, tzinfo=UTC))],
)
def test_an_instant_between_ticks_is_no_partition(zone: str, moment: datetime) -> None:
    """In the second zone, clocks change by half an hour, and Airflow's hourly ticks stand still then."""
    with pytest.raises(IntervalError, match="isn't the start of a partition"):
        run_interval(partitioned(CronPartitionTimetable("0 * * * *", timezone=zone, run_offset=-1), moment), None, None)


def day(zone: ZoneInfo, year: int, month: int, number: int) -> RunInterval:
    """A whole day by the clocks of a zone."""
    start = datetime(year, month, number, tzinfo=zone)
    return RunInterval(instant_ms(start), instant_ms(start + timedelta(days=1)))


def lengths(interval: RunInterval, length: timedelta, zone: Any) -> list[float]:
    """The pieces' lengths in hours, after a check that they tile the interval."""
    pieces = pieces_of(interval, length, zone)
    ends = [interval.start_ms, *(end for _, end in pieces)]
    assert [start for start, _ in pieces] == ends[:-1]
    assert ends[-1] == interval.end_ms
    return [(end - start) / 3_600_000 for start, end in pieces]


@pytest.mark.parametrize(("date", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 11, 21), 24)])
def test_a_day_has_as_many_hours_as_clocks_show(date: tuple[int, int, int], hours: int) -> None:
    assert lengths(day(BERLIN, *date), ONE, BERLIN) == [1.0] * hours


@pytest.mark.parametrize(("date", "first"), [((2026, 3, 29), 5.0), ((2026, 10, 25), 7.0)])
def test_the_quarter_of_a_day_in_which_clocks_change_is_shorter_or_longer(
    date: tuple[int, int, int], first: float
) -> None:
    assert lengths(day(BERLIN, *date), 6 * ONE, BERLIN) == [first, 6.0, 6.0, 6.0]


def test_where_clocks_change_by_half_an_hour_pieces_tile_too() -> None:
    assert sum(lengths(day(LORD_HOWE, 2026, 4, 5), ONE, LORD_HOWE)) == 24.5
    assert sum(lengths(day(LORD_HOWE, 2026, 10, 4), timedelta(minutes=40), LORD_HOWE)) == pytest.approx(23.5)


def test_pieces_are_aligned_to_the_zones_midnight() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")
    start = datetime(2026, 11, 21, 6, tzinfo=UTC)  # 11:30 there
    interval = RunInterval(instant_ms(start), instant_ms(start + 2 * ONE))
    assert lengths(interval, ONE, kolkata) == [0.5, 1.0, 0.5]
    assert lengths(interval, ONE, UTC) == [1.0, 1.0]


def test_the_zone_is_that_of_the_schedule_else_the_dags() -> None:
    scheduled = CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Berlin")
    assert str(zone_of(SimpleNamespace(timetable=scheduled, timezone=UTC))) == "Europe/Berlin"
    assert zone_of(SimpleNamespace(timetable=None, timezone=LORD_HOWE)) is LORD_HOWE
    assert zone_of(None) is UTC


@pytest.mark.parametrize(
    "length", [timedelta(hours=7), timedelta(0), timedelta(days=2), 3600, timedelta(microseconds=1)]
)
def test_a_day_must_have_a_whole_number_of_them(length: Any) -> None:
    with pytest.raises(ConfigurationError, match="split= takes the length of a window"):
        pieces_of(day(BERLIN, 2026, 11, 21), length, BERLIN)


def test_more_than_anybody_means_are_refused() -> None:
    century = RunInterval(0, instant_ms(datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(ConfigurationError, match="About 490,896 windows"):
        pieces_of(century, ONE, UTC)


def test_a_command_refuses_an_interval_that_would_cut_a_window_short() -> None:
    start = datetime(2026, 11, 21, 6, tzinfo=UTC)
    half, hours = (RunInterval(instant_ms(start), instant_ms(start + length * ONE)) for length in (1.5, 2))
    assert len(pieces_of(hours, ONE, UTC, whole=True)) == 2
    with pytest.raises(IntervalError, match=r"07:30:00\.000Z doesn't start and end where windows of 1:00:00 do"):
        pieces_of(half, ONE, UTC, whole=True)
