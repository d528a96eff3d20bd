"""What batches hold, by their headers: records, aborted records, markers, and offsets with nothing."""

from __future__ import annotations

import kafka.codec
import pytest
from hypothesis import given, settings, strategies as st

from airflow_kafka_offsets.client.records.record_batches import AbortedTransaction, count_batches
from airflow_kafka_offsets.offsets.answers.records import LogContent
from tests.unit.client.records.stored_batches import CONTROL, GZIP, T0, batch, emptied, legacy, lz4, patched
from tests.unit.client.records.test_random_record_batches import EVENTS, Event, History


def counted(stored: bytes, start: int, end: int, *aborted: tuple[int, int]) -> LogContent:
    """What a range of some batches holds."""
    found = count_batches(stored, [AbortedTransaction(*each) for each in aborted], LogContent("t", 0, start, end))
    assert found.error is None
    return found


def counts(content: LogContent) -> tuple[int, int, int, int]:
    return content.records, content.aborted, content.markers, content.missing


class TestWholeBatches:
    def test_are_counted_without_a_look_at_their_records(self) -> None:
        """No codec is needed, whatever they are compressed with."""
        stored = lz4(batch((10, T0), (11, T0), (12, T0))) + lz4(batch((13, T0), (15, T0)))
        found = counted(stored, 10, 16)
        assert (counts(found), found.offset_sum) == ((5, 0, 0, 1), None)

    def test_that_the_cleaner_emptied_or_removed_are_missing(self) -> None:
        """E11."""
        assert counts(counted(emptied(10, 12) + batch((15, T0)), 10, 16)) == (1, 0, 0, 5)
        assert counts(counted(emptied(10, 12, attributes=CONTROL), 10, 13)) == (0, 0, 0, 3)

    def test_that_say_something_impossible_are_an_error(self) -> None:
        more = patched(bytearray(batch((10, T0))), 10, 0, count=5)
        found = count_batches(batch((9, T0)) + more, [], LogContent("t", 0, 9, 20))
        assert found.error is not None
        assert (found.error.name, found.records, found.counted_to) == ("CORRUPT_MESSAGE", 1, 10)


class TestBatchesOverAnEnd:
    def test_without_gaps_are_not_decoded(self) -> None:
        found = counted(lz4(batch((10, T0), (11, T0), (12, T0))), 11, 12)
        assert (counts(found), found.offset_sum) == ((1, 0, 0, 0), 11)

    def test_with_gaps_need_their_codec(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kafka.codec, "has_lz4", lambda: False)
        found = count_batches(lz4(batch((10, T0), (12, T0))), [], LogContent("t", 0, 11, 13))
        assert found.error is not None
        assert found.error.name == "UNSUPPORTED_COMPRESSION_TYPE"


class TestMessagesOfBeforeKafka011:
    @pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (0, GZIP), (1, GZIP)])
    def test_are_counted_one_by_one(self, magic: int, codec: int) -> None:
        stored = legacy((10, T0), (11, T0), (12, T0), magic=magic, codec=codec) + legacy((15, T0), magic=magic)
        found = counted(stored, 11, 16)
        assert (counts(found), found.offset_sum) == ((3, 0, 0, 2), 38)


class TestAgainstANaiveReader:
    @settings(max_examples=80, deadline=None)
    @given(EVENTS, st.sampled_from([0, GZIP]), st.data())
    def test_any_range_in_answers_of_any_size_adds_up(
        self, events: list[Event], codec: int, data: st.DataObject
    ) -> None:
        """E11, E12: whatever was aborted, interleaved and compacted; a range's ends anywhere in the batches."""
        log = History(events, codec)
        committed = data.draw(st.booleans())
        start = data.draw(st.integers(0, log.end))
        content = LogContent("t", 0, start, data.draw(st.integers(start, log.end)))
        while not content.is_complete:
            stored = log.fetched(content.counted_to)
            whole = 12 + int.from_bytes(stored[8:12], "big")  # the first batch comes whole, the last may be cut off
            size = data.draw(st.integers(whole, len(stored)))
            aborted = log.aborted(content.counted_to) if committed else []
            further = count_batches(stored[:size], aborted, content)
            assert further.counted_to > content.counted_to
            content = further
        assert content.error is None
        within = range(content.start_offset, content.end_offset)
        written = [each.offset for each in log.all if each.offset in within]
        visible = [each.offset for each in log.visible if each.offset in within] if committed else written
        assert content.counted_to == content.end_offset
        assert (content.records, content.aborted) == (len(visible), len(written) - len(visible))
        assert content.offset_sum in (None, sum(visible))
        told = [offset for run in content.runs or () for offset in range(*run)]
        assert content.runs is None or told == visible
        assert (content.runs is None) == (content.offset_sum is None)
        assert content.markers == sum(each in within for each in log.markers)
