"""What is left to read: how old the first unread record of a partition is."""

from __future__ import annotations

from airflow_kafka_offsets.conditions.left_to_read import Behind, age_of
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition, RecordAges

NOW_MS = 1_795_154_400_000
AT = ReadPosition("t", 0, 5)


def age(lag: int, lost: int = 0, **found: int) -> RecordAges:
    """Of a group at offset 5 of a log that ends at 20."""
    records = FirstRecords([FirstRecord(*AT, **found)])
    return age_of(Behind(AT, 20, lag, lost), records, NOW_MS)


class TestAge:
    def test_is_that_of_the_first_record_after_the_position(self) -> None:
        assert age(15, offset=6, timestamp_ms=NOW_MS - 10).known_ms == 10

    def test_is_0_where_there_are_only_markers(self) -> None:
        assert age(15, searched_to=20).known_ms == 0

    def test_is_unknown_where_a_share_group_may_have_finished_that_record(self) -> None:
        """Of 15 offsets, 12 are finished, and nobody tells which."""
        (why,) = age(3, offset=5, timestamp_ms=NOW_MS - 10).unknown
        assert why == "t-0 (a share group, which has finished some records after its position)"

    def test_is_unknown_where_records_were_deleted_before_they_were_read(self) -> None:
        (why,) = age(17, lost=2, offset=5, timestamp_ms=NOW_MS - 10).unknown
        assert why == "t-0 (records were deleted before they were read)"
