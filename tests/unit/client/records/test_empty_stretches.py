"""What earlier reads have found empty: from which offsets on it is passed over, and of which logs."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.client.records.empty_stretches import EmptyStretches, ReadLog
from airflow_kafka_offsets.offsets.specs import IsolationLevel

LOG = ReadLog("t", 0, ("id-1", 3), IsolationLevel.READ_COMMITTED, None)


def kept(*stretches: tuple[int, int], log: ReadLog = LOG) -> EmptyStretches:
    found = EmptyStretches()
    for start, end in stretches:
        found.keep(log, start, end)
    return found


@pytest.mark.parametrize(("offset", "end"), [(9, 9), (10, 20), (19, 20), (20, 20), (21, 21)])
def test_one_is_passed_over_from_each_of_its_offsets(offset: int, end: int) -> None:
    assert kept((10, 20)).end_from(LOG, offset) == end


def test_those_that_touch_are_one_and_of_others_the_furthest_is_kept() -> None:
    assert kept((10, 12), (12, 15), (5, 11)).end_from(LOG, 5) == 15
    apart = kept((0, 5), (10, 20), (7, 8), (30, 30))
    assert [apart.end_from(LOG, offset) for offset in (0, 7, 10)] == [0, 7, 20]


def test_one_is_of_its_question_alone_and_of_no_other_log() -> None:
    """E15, E24, E27: nor of a topic that was created again, or of a log with a new leader."""
    found = kept((10, 20))
    others = (
        LOG._replace(topic="u"),
        LOG._replace(partition=1),
        LOG._replace(isolation_level=IsolationLevel.READ_UNCOMMITTED),
        LOG._replace(at_or_after_ms=0),
        LOG._replace(incarnation=("id-2", 3)),
        LOG._replace(incarnation=("id-1", 4)),
    )
    assert [found.end_from(each, 10) for each in others] == [10] * 6


def test_the_number_of_logs_is_bounded() -> None:
    logs, found = [LOG._replace(partition=number) for number in range(20_010)], EmptyStretches()
    for each in logs:
        found.keep(each, 0, 5)
    assert [number for number, each in enumerate(logs) if found.end_from(each, 0) == 0] == list(range(10))
