"""Windows pinned ahead of their runs by ``ledger resolve``, all by one commit; and where a record is."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from tests.integration.airflow.conftest import T0, Publish, Resolve, Run
from tests.integration.airflow.windows.conftest import HOUR_S, DeleteBefore, XCom, ranges, stamped
from tests.integration.conftest import MakeTopic, Produce

HOURS = [(T0 + timedelta(hours=each)).isoformat() for each in range(7)]


@pytest.fixture
def hourly(topic: MakeTopic, produce: Produce) -> str:
    """Two partitions: a record every half an hour from T0 on, the third too late by an hour; and a single one."""
    name = topic(partitions=2)
    produce(name, 0, stamped(*(hour * HOUR_S for hour in (0, 0.5, 1, 2, 1.5, 2.5, 3, 3.5, 4, 4.5, 5))))
    produce(name, 1, stamped(2.2 * HOUR_S))
    return name


@pytest.fixture
def in_bulk(run: Run, hourly: str) -> Any:
    """Run the command for the hours from T0 to so many later. Returns exit code and rows."""

    def resolve(end: int, start: int = 0, *words: str) -> tuple[int, list[dict[str, Any]]]:
        between = ("--start", HOURS[start], "--end", HOURS[end], "--split", "1h")
        code, out, err = run("ledger", "resolve", "loads", "--topics", hourly, *between, *words, "-o", "json")
        assert err == ""
        return code, json.loads(out)

    return resolve


class TestResolve:
    def test_pins_the_windows_that_the_runs_would_pin(
        self, hourly: str, in_bulk: Any, resolve: Resolve, ledger: Ledger
    ) -> None:
        """S2, S3, S21: one look at the log ends for all of them; the runs then take what is pinned."""
        code, rows = in_bulk(6)
        assert (code, len(rows)) == (0, 6)
        alone = [resolve(hourly, *HOURS[each : each + 2], pipeline="alone") for each in (4, 1, 0, 5, 3, 2)]
        alone.sort(key=lambda each: each["window"])
        assert [(row["window"], row["offsets"]) for row in rows] == [
            (each["window"], each["offsets"]) for each in alone
        ]
        taken = [resolve(hourly, *HOURS[each : each + 2]) for each in range(6)]
        assert [ranges(each) for each in taken] == [ranges(each) for each in alone]
        state = ledger.read()
        assert len(state.snapshots) == 7, "no instant was resolved twice"
        assert {window.number for window in state.windows.values()} == {2}, "the ledger began, and they are one step"

    def test_meets_the_windows_that_are_pinned_already(
        self, hourly: str, in_bulk: Any, resolve: Resolve, produce: Produce
    ) -> None:
        """S2, E3: records that came late meanwhile move no boundary."""
        kept = resolve(hourly, *HOURS[2:4])
        produce(hourly, 1, stamped(2.1 * HOUR_S, 2.3 * HOUR_S))
        in_bulk(6)
        taken = [resolve(hourly, *HOURS[each : each + 2]) for each in range(6)]
        assert taken[2] == kept
        ends = [(ranges(one)[1][2], ranges(other)[1][1]) for one, other in pairwise(taken)]
        assert all(end == start for end, start in ends)

    def test_pins_them_whatever_retention_has_deleted(
        self, hourly: str, in_bulk: Any, resolve: Resolve, delete_before: DeleteBefore
    ) -> None:
        """S12, E9: what is gone by then is a matter of the load."""
        resolve(hourly, *HOURS[0:2])
        delete_before(hourly, 4)
        code, rows = in_bulk(4)
        assert (code, [row["offsets"] for row in rows]) == (0, [2, 3, 2, 2])

    def test_an_end_in_the_future_gets_a_commands_advice(self, run: Run, hourly: str) -> None:
        """E36"""
        ends = ("--start", "2998-12-31T23:00:00Z", "--end", "2999-01-01T00:00:00Z")
        code, _, err = run("ledger", "resolve", "loads", "--topics", hourly, *ends)
        assert code == 2
        assert "lies in the future" in err
        assert "Give a past time as --end." in err
        assert "Sensor" not in err

    def test_refuses_to_cut_a_window_short(self, run: Run, hourly: str) -> None:
        between = ("--start", HOURS[0], "--end", "2026-11-20T08:30:00Z", "--split", "1h")
        code, _, err = run("ledger", "resolve", "loads", "--topics", hourly, *between)
        assert code == 2
        assert "2026-11-20T08:30:00.000Z doesn't start and end where windows of 1:00:00 do, in time zone UTC" in err

    @pytest.mark.parametrize(
        ("topics", "said"),
        [
            (["--topic-pattern", "t("], "not a regular expression"),
            (["--topic-pattern", "t.*", "--topics", "t"], "exactly one"),
            ([], "exactly one"),
        ],
    )
    def test_refuses_topics_that_it_cannot_tell(self, run: Run, topics: list[str], said: str) -> None:
        between = ("--start", HOURS[0], "--end", HOURS[2])
        code, _, err = run("ledger", "resolve", "loads", *topics, *between)
        assert code == 2
        assert said in err


class TestFind:
    @pytest.fixture
    def windows(self, hourly: str, resolve: Resolve) -> list[XCom]:
        """Three hours."""
        return [resolve(hourly, *HOURS[each : each + 2]) for each in range(3)]

    def found(self, run: Run, topic: str, partition: int, offset: int) -> tuple[int, dict[str, Any]]:
        code, out, _ = run("ledger", "find", "loads", topic, str(partition), str(offset), "-o", "json")
        (row,) = json.loads(out)
        return code, row

    def test_names_window_attempt_and_output(
        self, run: Run, hourly: str, windows: list[XCom], publish: Publish
    ) -> None:
        publish(windows[0])
        code, row = self.found(run, hourly, 0, 1)
        assert (code, row["found"], row["window"]) == (0, "published", windows[0]["window"])
        assert type(row["attempt"]) is int

    def test_tells_what_is_not_loaded_yet(self, run: Run, hourly: str, windows: list[XCom]) -> None:
        code, row = self.found(run, hourly, 0, 5)
        assert (code, row["window"]) == (0, windows[2]["window"])
        assert row["found"] == "not published: pinned"

    def test_a_record_behind_the_last_window_is_in_none(self, run: Run, hourly: str, windows: list[XCom]) -> None:
        code, row = self.found(run, hourly, 0, 9)
        assert (code, row["window"]) == (1, None)
        assert windows[2]["window"] in row["found"]
