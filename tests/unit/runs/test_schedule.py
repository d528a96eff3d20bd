"""A Dag's schedule: the windows that it cuts, and the backfill that makes exactly those, as Airflow itself reads it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest
from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from airflow.timetables import interval as older_intervals
from airflow.timetables import trigger as older_triggers

from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.runs.interval import run_interval
from airflow_kafka_offsets.runs.schedule import Schedule, ticks

HOUR = timedelta(hours=1)
SIX = datetime(2026, 10, 31, 6, tzinfo=UTC)
NEW_YORK = "America/New_York"

BY_START = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
BY_END = CronTriggerTimetable("0 * * * *", timezone="UTC", interval=HOUR)
BY_PARTITION = CronPartitionTimetable("0 * * * *", timezone=NEW_YORK, run_offset=-1)
OLDER = {
    "start": older_intervals.CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    "end": older_triggers.CronTriggerTimetable("0 * * * *", timezone="UTC", interval=HOUR),
    "partition": older_triggers.CronPartitionTimetable("0 * * * *", timezone=NEW_YORK, run_offset=-1),
    "several crons": older_triggers.MultipleCronTriggerTimetable("0 * * * *", timezone="UTC", interval=HOUR),
    "delta": older_intervals.DeltaDataIntervalTimetable(HOUR),
    "delta by end": older_triggers.DeltaTriggerTimetable(HOUR, interval=HOUR),
}
"""Those of ``airflow.timetables``, which Dags may name as well, and which share no class with the SDK's."""


def hours(first: int, last: int) -> tuple[int, int]:
    """From one to another hour after six, in Unix milliseconds."""
    return instant_ms(SIX + first * HOUR), instant_ms(SIX + last * HOUR)


def made_by(command: str, timetable: Any) -> list[tuple[int, int]]:
    """The windows of the runs that Airflow makes of a backfill command."""
    from airflow.cli import cli_parser
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("loads", schedule=timetable, start_date=datetime(2020, 1, 1, tzinfo=UTC)) as dag:
        pass
    airflow, *words = shlex.split(command)
    args = cli_parser.get_parser().parse_args(words)
    assert (airflow, args.dag_id, args.reprocess_behavior) == ("airflow", "loads", "failed")
    served: SerializedDAG = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    runs = served.iter_dagrun_infos_between(args.from_date, args.to_date)
    contexts = [
        {
            "dag": dag,
            "partition_date": each.partition_date,
            "data_interval_start": each.data_interval and each.data_interval.start,
            "data_interval_end": each.data_interval and each.data_interval.end,
        }
        for each in runs
    ]
    found = [run_interval(each, None, None) for each in contexts]
    return [(each.start_ms, each.end_ms) for each in found]


@pytest.mark.parametrize(
    "timetable",
    [
        BY_START,
        BY_END,
        BY_PARTITION,
        CronDataIntervalTimetable("0 * * * *", timezone=NEW_YORK),
        MultipleCronTriggerTimetable("0 * * * *", timezone="UTC", interval=HOUR),
        *(OLDER[name] for name in ("start", "end", "several crons")),
    ],
    ids=["start", "end", "partition", "another zone", "several crons", "older: start", "older: end", "older: crons"],
)
@pytest.mark.parametrize("missing", [(0, 1), (0, 3), (20, 26)], ids=["an hour", "three", "over the change of clocks"])
def test_the_command_loads_what_is_missing_and_nothing_else(timetable: Any, missing: tuple[int, int]) -> None:
    command = Schedule.of("loads", timetable).backfill(*hours(*missing))
    wanted = [hours(each, each + 1) for each in range(*missing)]
    if missing == (20, 26) and timetable is BY_PARTITION:
        pytest.skip("a clock that goes back shows an hour twice, and Airflow takes dates as clocks show them")
    assert made_by(command, timetable) == wanted


@pytest.mark.parametrize("timetable", [BY_START, BY_END])
def test_of_another_dag_it_takes_in_a_neighbour_at_most(timetable: Any) -> None:
    """Which is there, and so left alone."""
    found = made_by(Schedule("loads").backfill(*hours(1, 3)), timetable)
    assert {hours(1, 2), hours(2, 3)} < set(found) <= {hours(each, each + 1) for each in range(4)}


def test_the_last_window_is_one_that_is_over() -> None:
    for timetable in (BY_START, BY_END, BY_PARTITION):
        assert Schedule.of("loads", timetable).last_window(instant_ms(SIX + 90 * timedelta(minutes=1))) == hours(0, 1)
        assert Schedule.of("loads", timetable).last_window(instant_ms(SIX + HOUR)) == hours(0, 1)


def test_a_schedule_without_cron_tells_nothing_and_refuses_nothing() -> None:
    for timetable in (DeltaDataIntervalTimetable(HOUR), None):
        schedule = Schedule.of("loads", timetable)
        assert schedule.last_window(instant_ms(SIX)) is None
        assert schedule.cuts_at(instant_ms(SIX) + 17_000)


@pytest.mark.parametrize("zone", ["Europe/Berlin", NEW_YORK])
@pytest.mark.parametrize("cron", ["0 * * * *", "0 0 * * *", "30 2 * * *", "0 2 * * *", "0 1,2,3 * * *", "*/30 2 * * *"])
def test_every_tick_that_airflow_gives_is_one_also_where_clocks_change(zone: str, cron: str) -> None:
    """S26."""
    airflows = older_triggers.CronPartitionTimetable(cron, timezone=zone)
    schedule = Schedule.of("loads", airflows)
    for month, day in ((3, 8), (3, 29), (10, 25), (11, 1)):
        tick = airflows._align_to_next(pendulum.datetime(2026, month, day))
        while tick < pendulum.datetime(2026, month, day).add(days=1):
            assert schedule.cuts_at(instant_ms(tick)), tick
            following = airflows._get_next(tick)
            assert ticks(cron, zone, instant_ms(tick), instant_ms(following))
            tick = following


def test_an_instant_between_ticks_is_none() -> None:
    assert not Schedule.of("loads", BY_START).cuts_at(instant_ms(SIX) + 60_000)


def test_where_airflow_finds_no_next_tick_it_is_not_looked_for_for_ever() -> None:
    """The zone changes its clocks by half an hour, and Airflow's hourly ticks stand still then."""
    from_ms = instant_ms(pendulum.datetime(2026, 4, 4, 14, 30))
    with pytest.raises(IntervalError, match="not a tick"):
        ticks("0 * * * *", "Australia/Lord_Howe", from_ms, from_ms + 3_600_000)


class TestClocksThatChangeByHalfAnHour:
    """S26: Airflow finds no hourly tick there."""

    LORD_HOWE = Schedule.of("loads", CronDataIntervalTimetable("0 * * * *", timezone="Australia/Lord_Howe"))

    @pytest.mark.parametrize(("month", "first", "last"), [(4, (3, 13, 0), (5, 13, 30)), (10, (2, 13, 30), (4, 13, 0))])
    def test_ticks_over_the_change_are_unknown(
        self, month: int, first: tuple[int, int, int], last: tuple[int, int, int]
    ) -> None:
        start, end = (instant_ms(datetime(2026, month, *each, tzinfo=UTC)) for each in (first, last))
        with pytest.raises(IntervalError, match="has no tick after"):
            ticks("0 * * * *", "Australia/Lord_Howe", start, end)

    def test_an_instant_before_which_no_tick_is_found_is_none(self) -> None:
        assert not self.LORD_HOWE.cuts_at(instant_ms(datetime(2026, 4, 4, 17, 10, tzinfo=UTC)))


def test_a_key_is_that_of_the_zone() -> None:
    ms = instant_ms(pendulum.datetime(2026, 11, 21, 5, tz=NEW_YORK))
    assert Schedule.of("loads", BY_PARTITION).partition_key(ms) == "2026-11-21T05:00:00"


@pytest.mark.parametrize("name", OLDER)
def test_the_older_family_of_timetables_says_the_same(name: str) -> None:
    known = {
        "start": BY_START,
        "end": BY_END,
        "partition": BY_PARTITION,
        "several crons": MultipleCronTriggerTimetable("0 * * * *", timezone="UTC", interval=HOUR),
        "delta": DeltaDataIntervalTimetable(HOUR),
        "delta by end": DeltaTriggerTimetable(HOUR, interval=HOUR),
    }
    ours, theirs = Schedule.of("loads", known[name]), Schedule.of("loads", OLDER[name])
    at_ms = instant_ms(SIX + 90 * timedelta(minutes=1))
    assert theirs.last_window(at_ms) == ours.last_window(at_ms)
    assert theirs.backfill(*hours(0, 2)) == ours.backfill(*hours(0, 2))
    assert theirs.cuts_at(at_ms) == ours.cuts_at(at_ms)
    assert (theirs.gives_intervals, theirs.by_partition, theirs.by_end) == (
        *(ours.gives_intervals, ours.by_partition, ours.by_end),
    )


def test_so_many_windows_that_nobody_means_them_are_refused_soon() -> None:
    """They would take hours to list, for example when the year is misspelt."""
    with pytest.raises(IntervalError, match=r"About 5,\d{3},\d{3} windows of '\* \* \* \* \*' lie between 2016-"):
        ticks("* * * * *", "UTC", instant_ms(SIX.replace(year=2016)), instant_ms(SIX))


def test_what_is_no_schedule_is_said_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match=r"is not a schedule: .*[^.]\.$"):
        ticks("every hour", "UTC", 0, 1)
