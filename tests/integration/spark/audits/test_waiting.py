"""Audits of ten windows at once whose writer hasn't come to their end, and after retention has taken records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from dev.kafka import Broker
from tests.integration.spark.audits.conftest import NOBODY, connected, places
from tests.integration.spark.conftest import FIVE_MS, MakeFlights, delete_before
from tests.unit.spark.manifests import manifest_of

pytestmark = pytest.mark.nightly("ten windows in place of one; test_verdicts.py has each verdict")

EACH, COUNT = 10, 10
AuditEach = Callable[..., list[AuditReport]]


@pytest.fixture
def topic(make_flights: MakeFlights) -> str:
    return make_flights({0: EACH * COUNT, 1: EACH * COUNT})


@pytest.fixture
def windows(topic: str) -> list[Manifest]:
    """Ten windows, of ten records of each of two partitions."""
    return [
        manifest_of(
            [(topic, each, number * EACH, (number + 1) * EACH) for each in range(2)],
            start_ms=FIVE_MS + number,
            end_ms=FIVE_MS + number + 1,
        )
        for number in range(COUNT)
    ]


def rows_of(topic: str, ends: Sequence[int], without: Sequence[tuple[int, int]] = ()) -> list[tuple[str, int, int]]:
    """What a writer has written that has come so far in each partition."""
    rows = [(topic, partition, offset) for partition, end in enumerate(ends) for offset in range(end)]
    return [row for row in rows if row[1:] not in without]


def test_what_its_writer_has_not_come_to_is_told_by_window(
    broker: Broker, audit_each: AuditEach, written: Any, topic: str, windows: list[Manifest]
) -> None:
    """It is ahead in partition 1, and has lost a record in the third window."""
    group = f"connect-{topic}"
    with connected(broker) as ask:
        commits = [CommittedOffset(topic, 0, 55), CommittedOffset(topic, 1, 85)]
        ask.commit_offsets(group, CommittedOffsets(commits)).raise_for_errors()
    table = written(rows_of(topic, (55, 85), without=[(1, 23)]))
    reports = audit_each(windows, table, writer_group=group)
    assert [dict(each.counts) for each in reports] == [
        *({}, {}, {"missing": 1}, {}, {}),
        *({"not_yet": 5}, {"not_yet": 10}, {"not_yet": 10}, {"not_yet": 15}, {"not_yet": 20}),
    ]
    assert places(reports[8]) == [("not_yet", 0, 80, 89), ("not_yet", 1, 85, 89)]
    assert [each.records for each in reports] == [2 * EACH] * COUNT


def test_after_retention_has_taken_the_records(
    broker: Broker, audit_each: AuditEach, written: Any, topic: str, windows: list[Manifest], tmp_path: Path
) -> None:
    """Of partition 0, Kafka has nothing before 45. The table lacks one record in the windows 1, 4 (on both sides of
    that) and 7."""
    with connected(broker) as client:
        counted = Census.of(client.log_contents([each.log_range for each in windows[1].ranges]).raise_for_errors())
    delete_before(broker, tmp_path, topic, 45)
    table = written(rows_of(topic, (100, 100), without=[(0, 12), (0, 41), (0, 48), (0, 77)]))
    reports = audit_each(windows, table, missing_to=f"file://{tmp_path}/missing")
    told = {number: dict(each.counts) for number, each in enumerate(reports) if not each.is_complete}
    assert told == {1: {"unknowable": 10}, 4: {"missing": 1, "unknowable": 5}, 7: {"missing": 1}}
    assert [reports[number].records for number in (0, 1, 4, 7)] == [20, None, None, 20]
    assert [each.written and each.written.rows for each in reports] == [*[None] * 4, 1, None, None, 1, None, None]

    (kept,) = audit_each([windows[1]], table, census=counted, servers=NOBODY)
    assert (dict(kept.counts), kept.rows, kept.records, kept.looked_at) == ({"missing": 1}, 19, 20, 0)


def test_what_is_missing_and_gone_is_not_said_to_be_written(
    broker: Broker,
    audit_each: AuditEach,
    written: Any,
    topic: str,
    windows: list[Manifest],
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """Its records were counted: of the three that are missing, Kafka still has one."""
    with connected(broker) as client:
        counted = Census.of(client.log_contents([each.log_range for each in windows[4].ranges]).raise_for_errors())
    delete_before(broker, tmp_path, topic, 45)
    table = written(rows_of(topic, (100, 100), without=[(0, 41), (0, 42), (0, 48)]))
    (report,) = audit_each([windows[4]], table, census=counted, missing_to=f"file://{tmp_path}/missing")
    assert dict(report.counts) == {"missing": 3}
    assert report.written is not None
    assert report.written.rows == 1
    assert [row.offset for row in spark.read.parquet(report.written.output).collect()] == [48]
    assert report.repair == f"1 of the 3 missing records is in {report.written.output}; Kafka no longer has the others."

    table = written(rows_of(topic, (100, 100), without=[(0, 41), (0, 42)]))
    (report,) = audit_each([windows[4]], table, census=counted, missing_to=f"file://{tmp_path}/missing")
    assert (dict(report.counts), report.written) == ({"missing": 2}, None)
