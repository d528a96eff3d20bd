"""First records: found by position, in order, with errors as data."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition

REFUSED = ResponseError("TOPIC_AUTHORIZATION_FAILED", 29, False)
FOUND = FirstRecord("t", 0, 10, offset=12, timestamp_ms=5)
NONE = FirstRecord("t", 0, 2, searched_to=9)
BAD = FirstRecord("a", 3, 1, error=REFUSED)


class TestFirstRecords:
    def test_are_found_by_position(self) -> None:
        found = FirstRecords([FOUND, NONE, BAD])
        assert found.lookup("t", 0, 10) == FOUND
        assert found.lookup("t", 0, 12) is None
        assert ReadPosition("t", 0, 2) in found
        assert len(found) == 3

    def test_come_in_order_of_topic_partition_and_position(self) -> None:
        found = FirstRecords([FOUND, NONE, BAD])
        assert list(found) == [BAD, NONE, FOUND]

    def test_no_record_is_no_error(self) -> None:
        found = FirstRecords([FOUND, NONE, BAD])
        assert list(found.ok()) == [NONE, FOUND]
        assert list(found.errors()) == [BAD]
        assert list(found.ok().raise_for_errors()) == [NONE, FOUND]

    def test_errors_name_their_position_when_they_are_raised(self) -> None:
        with pytest.raises(OffsetsError, match=r"Reading the first record failed for offset 1 of a-3: TOPIC_AUTH"):
            FirstRecords([FOUND, BAD]).raise_for_errors()
