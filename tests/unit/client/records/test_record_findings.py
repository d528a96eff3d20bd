"""What earlier reads have found: which positions it answers, and for how long."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.client.records.record_batches import FoundRecord
from airflow_kafka_offsets.client.records.record_findings import Finding, ReadLog, RecordFindings
from airflow_kafka_offsets.offsets.specs import IsolationLevel

LOG = ReadLog("t", 0, ("id-1", 3), IsolationLevel.READ_COMMITTED, None)
RECORD = FoundRecord(20, 1_735_689_600_000)


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def __call__(self) -> float:
        return self.time_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def findings(clock: Clock) -> RecordFindings:
    return RecordFindings(clock)


def finding(start: int, end: int, record: FoundRecord | None = None, read_at_s: float = 1000.0) -> Finding:
    return Finding(start, end, record, read_at_s)


class TestFinding:
    @pytest.mark.parametrize(("offset", "is_known"), [(9, False), (10, True), (19, True), (20, False), (21, False)])
    def test_of_no_record_answers_from_its_start_to_before_its_end(
        self, findings: RecordFindings, offset: int, is_known: bool
    ) -> None:
        findings.keep(LOG, finding(10, 20))
        assert (findings.lookup(LOG, offset) is not None) == is_known

    @pytest.mark.parametrize(("offset", "is_known"), [(9, False), (10, True), (20, True), (21, False)])
    def test_of_a_record_answers_up_to_the_record(self, findings: RecordFindings, offset: int, is_known: bool) -> None:
        findings.keep(LOG, finding(10, 20, RECORD))
        assert (findings.lookup(LOG, offset) is not None) == is_known

    def test_that_reaches_furthest_is_taken(self, findings: RecordFindings) -> None:
        for each in (finding(10, 12), finding(5, 15), finding(14, 20, RECORD)):
            findings.keep(LOG, each)
        assert findings.lookup(LOG, 11) == finding(5, 15)
        assert findings.lookup(LOG, 14) == finding(14, 20, RECORD)

    def test_is_of_its_question_alone(self, findings: RecordFindings) -> None:
        """E15"""
        findings.keep(LOG, finding(10, 20))
        others = (
            LOG._replace(topic="u"),
            LOG._replace(partition=1),
            LOG._replace(isolation_level=IsolationLevel.READ_UNCOMMITTED),
            LOG._replace(at_or_after_ms=0),
        )
        assert [findings.lookup(each, 10) for each in others] == [None] * 4

    @pytest.mark.parametrize(
        ("topic_id", "record", "lasts"),
        [("id-1", None, True), (None, None, False), ("id-1", FoundRecord(20, 5), False)],
    )
    def test_of_a_record_is_forgotten_after_a_minute_and_of_none_stays_with_the_topic(
        self, findings: RecordFindings, clock: Clock, topic_id: str | None, record: FoundRecord | None, lasts: bool
    ) -> None:
        """E24: without its id, the topic may be another one by then."""
        log = LOG._replace(incarnation=(topic_id, 3))
        findings.keep(log, Finding(10, 20, record, findings.now_s()))
        clock.time_s += 60
        assert findings.lookup(log, 10) is not None
        clock.time_s += 1
        assert (findings.lookup(log, 10) is not None) is lasts

    def test_counts_from_when_its_oldest_part_was_read(self, findings: RecordFindings, clock: Clock) -> None:
        clock.time_s += 50
        findings.keep(LOG, finding(10, 30, FoundRecord(30, 5), read_at_s=1000.0))
        clock.time_s += 11
        assert findings.lookup(LOG, 10) is None


class TestNumber:
    def test_of_findings_of_a_log_is_bounded(self, findings: RecordFindings) -> None:
        for number in range(100):
            findings.keep(LOG, finding(10 * number, 10 * number + 5))
        known = [number for number in range(100) if findings.lookup(LOG, 10 * number)]
        assert known == list(range(68, 100))

    def test_of_logs_is_bounded(self, findings: RecordFindings) -> None:
        logs = [LOG._replace(partition=number) for number in range(20_010)]
        for each in logs:
            findings.keep(each, finding(0, 5))
        assert [number for number, each in enumerate(logs) if findings.lookup(each, 0) is None] == list(range(10))

    def test_does_not_grow_with_what_is_covered(self, findings: RecordFindings) -> None:
        for end in range(11, 60):
            findings.keep(LOG, finding(10, end))
        findings.keep(LOG, finding(100, 105))
        assert findings.lookup(LOG, 10) == finding(10, 59)
        assert findings.lookup(LOG, 100) == finding(100, 105)


class TestIncarnations:
    def test_nothing_is_known_of_a_topic_that_was_created_again_or_a_log_with_a_new_leader(self) -> None:
        """E24, E27."""
        findings = RecordFindings()
        findings.keep(LOG, Finding(0, 10, None, findings.now_s()))
        assert findings.lookup(LOG, 5) is not None
        assert findings.lookup(LOG._replace(incarnation=("id-2", 3)), 5) is None
        assert findings.lookup(LOG._replace(incarnation=("id-1", 4)), 5) is None
