"""First records: found by position, in order, with errors as data; and how old they are by their timestamps."""

from __future__ import annotations

import re

import pytest

from airflow_kafka_offsets.errors import ConfigurationError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition, RecordAges
from airflow_kafka_offsets.offsets.instants import FUTURE_TOLERANCE_MS

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


NOW_MS = 1_795_240_800_000


def record(timestamp_ms: int | None, partition: int = 0, missing_codec: str = "") -> FirstRecord:
    return FirstRecord("t", partition, 5, 5, timestamp_ms, missing_codec=missing_codec)


def ages(*records: FirstRecord) -> RecordAges:
    return RecordAges.of(records, NOW_MS)


class TestRecordAges:
    def test_the_oldest_counts(self) -> None:
        assert ages(record(NOW_MS - 10), record(NOW_MS - 30, 1)).known_ms == 30
        assert ages().known_ms is None

    def test_a_clock_that_is_ahead_by_no_more_than_clocks_are_makes_a_new_record(self) -> None:
        assert ages(record(NOW_MS + FUTURE_TOLERANCE_MS)).known_ms == 0

    def test_one_from_further_in_the_future_hides_how_old_the_oldest_is(self) -> None:
        """E5"""
        found = ages(record(NOW_MS - 10), record(NOW_MS + FUTURE_TOLERANCE_MS + 1, 1))
        assert (found.known_ms, found.oldest_ms) == (None, 10)
        assert found.note("all this") == (
            "; the age of all this is unknown on t-1 (its timestamp lies in the future: 2026-11-21T07:00:00.001Z)"
        )

    def test_so_does_one_without_a_timestamp_and_one_that_is_not_there_yet(self) -> None:
        found = ages(record(None), FirstRecord("t", 1, 5, searched_to=5))
        assert found.unknown == ("t-0 (it has no timestamp)", "t-1 (its leader hasn't returned a record yet)")
        assert found.known_ms is None

    def test_so_does_one_that_can_not_be_read_and_it_is_told_why(self) -> None:
        refused = FirstRecord("t", 1, 5, error=REFUSED)
        codec, error = ages(record(None, missing_codec="zstd"), refused).unknown
        assert re.fullmatch(r"t-0 \(it is compressed with zstd, .*airflow-kafka-offsets\[codecs\]'\)\)", codec)
        assert error.startswith("t-1 (it can't be read: TOPIC_AUTHORIZATION_FAILED")

    def test_a_codec_that_this_machine_lacks_is_a_fault_of_the_machine(self) -> None:
        with pytest.raises(ConfigurationError, match=r"t-0 offset 5.*zstd.*airflow-kafka-offsets\[codecs\]"):
            RecordAges.to_judge([record(None, missing_codec="zstd")], NOW_MS)


class TestTogether:
    def test_the_oldest_of_all_parts_counts(self) -> None:
        assert RecordAges.together([RecordAges(0), ages(record(NOW_MS - 10))]).known_ms == 10
        assert RecordAges.together([RecordAges(0), RecordAges(0)]).known_ms == 0
        assert RecordAges.together([]).known_ms == 0

    def test_a_part_that_is_unknown_makes_all_unknown(self) -> None:
        assert RecordAges.together([ages(record(NOW_MS - 10)), RecordAges()]) == RecordAges()
        found = RecordAges.together([ages(record(NOW_MS - 10)), ages(record(None, 1))])
        assert (found.known_ms, found.oldest_ms, found.unknown) == (None, 10, ("t-1 (it has no timestamp)",))
