"""Errors: what a retry may help with, and how many windows that failed are told."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import (
    DataLossError,
    FailedWindow,
    ResponseError,
    SparkFailedError,
    WindowsFailedError,
)


@pytest.mark.parametrize(
    ("name", "code", "retriable", "may_pass"),
    [
        ("LEADER_NOT_AVAILABLE", 5, True, True),
        ("INCONSISTENT_TOPIC_ID", 103, True, True),
        ("UNKNOWN_TOPIC_OR_PARTITION", 3, True, False),
        ("UNKNOWN_TOPIC_ID", 100, True, False),
        ("TOPIC_AUTHORIZATION_FAILED", 29, False, False),
    ],
)
def test_an_unknown_topic_is_final_although_kafka_says_retriable(
    name: str, code: int, retriable: bool, may_pass: bool
) -> None:
    assert ResponseError(name, code, retriable).may_pass is may_pass


def test_a_thousand_windows_that_failed_for_one_reason_are_told_in_a_few_lines() -> None:
    names = [f"2026112{day}T000000000Z_2026112{day}T000100000Z" for day in range(5)]
    gone = [FailedWindow(each, "orders", SparkFailedError(f"It took {each} along: exit 137")) for each in names * 200]
    lost = FailedWindow(names[0], "payments", DataLossError("3 of 5\noffsets are gone"))
    head, *table = str(WindowsFailedError([gone[0], lost, *gone[1:]], 2000)).splitlines()
    assert head == "1001 of 2000 windows failed; the other 999 did not."
    assert [line.split("  ")[0] for line in table] == ["window", *names, "and 995 more", names[0]]
    assert sum("exit 137" in line for line in table) == 1
    assert table[2].endswith("SparkFailedError  the same")
    assert table[-1].endswith("DataLossError     3 of 5 offsets are gone")
