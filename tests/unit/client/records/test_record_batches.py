"""The first visible record in the bytes of a Fetch answer: what is skipped, and what is told without decoding."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import kafka.codec
import pytest
from hypothesis import given, settings, strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from airflow_kafka_offsets.client.records.record_batches import (
    AbortedTransaction,
    BatchesRead,
    FoundRecord,
    read_first_record,
)
from tests.unit.client.records.stored_batches import (
    ABORT,
    COMMIT,
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    T0,
    VALUE,
    batch,
    emptied,
    legacy,
    lz4,
    marker,
    patched,
    stamped_by_the_broker,
)

EMPTY = b""


def first(
    records: bytes, position: int = 0, at_or_after_ms: int | None = None, aborted: Sequence[tuple[int, int]] = ()
) -> tuple[int, int | None] | None:
    """Offset and timestamp of the first visible record."""
    found = read_first_record(records, [AbortedTransaction(*each) for each in aborted], position, at_or_after_ms)
    assert found.error is None
    return None if found.record is None else (found.record.offset, found.record.timestamp_ms)


@pytest.fixture
def no_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries of LZ4 are missing."""
    monkeypatch.setattr(kafka.codec, "has_lz4", lambda: False)


class TestPlainBatches:
    def test_no_batch_is_no_record_and_nothing_read(self) -> None:
        for nothing in (None, EMPTY):
            assert read_first_record(nothing, [], 7) == BatchesRead(None, 7)

    def test_a_header_may_have_any_bytes_as_its_name(self) -> None:
        """No broker checks them, and kafka-python takes them for damage."""
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
        builder.append(0, T0, None, VALUE, [("é", b"")])
        builder.append(1, T0 + 1, None, VALUE, [])
        odd = bytes(builder.build()).replace("é".encode(), b"\xff\xfe")
        assert first(odd) == (0, T0)
        assert first(odd, at_or_after_ms=T0 + 1) == (1, T0 + 1)

    def test_batches_before_the_position_leave_it_where_it_is(self) -> None:
        assert read_first_record(batch((3, T0)), [], 7) == BatchesRead(None, 7)

    def test_a_batch_that_is_cut_off_is_not_read(self) -> None:
        whole, cut = batch((10, T0)), batch((11, T0))
        assert read_first_record(whole + cut[:-1], [], 11) == BatchesRead(None, 11)
        assert read_first_record(cut[:-1], [], 11) == BatchesRead(None, 11)
        assert first(whole + cut[:-1], 10) == (10, T0)

    def test_a_record_without_a_timestamp_has_none(self) -> None:
        assert first(batch((10, -1), (11, -1)), 10) == (10, None)
        assert first(batch((10, -1)), 10) == (10, None)


class TestTransactions:
    def test_a_marker_that_the_cleaner_emptied_is_passed_over(self) -> None:
        stored = emptied(5, 5, attributes=CONTROL | 0x10, producer=1) + batch((6, T0))
        assert first(stored, 5, aborted=[(1, 2)]) == (6, T0)

    def test_records_outside_of_transactions_are_visible_whatever_their_producer_aborted(self) -> None:
        """An idempotent producer has an id too."""
        builder = DefaultRecordBatchBuilder(2, 0, False, 1, 0, 0, 1 << 20)
        builder.append(0, T0, None, VALUE, [])
        assert first(patched(builder.build(), 5, 0), 5, aborted=[(1, 2)]) == (5, T0)


class TestCompactedBatches:
    def test_a_batch_without_records_is_passed_over(self) -> None:
        assert first(emptied(5, 9) + batch((10, T0)), 5) == (10, T0)
        assert read_first_record(emptied(5, 9), [], 5) == BatchesRead(None, 10)

    def test_a_delete_horizon_is_no_timestamp(self) -> None:
        """KIP-534 keeps it where the first timestamp is; the distances of the records count from there."""
        built = bytearray(batch((5, T0), (6, T0 + 6)))
        stored = patched(built, 5, 1, DELETE_HORIZON)
        assert first(stored, 6) == (6, T0 + 6)


class TestTimestamps:
    def test_only_records_at_or_after_the_instant_count(self) -> None:
        """E41: of records in no order of time, the first in order of offsets."""
        stored = batch((5, T0), (6, T0 + 60), (7, T0 + 20)) + batch((8, T0 + 70))
        assert first(stored, 5, T0 + 20) == (6, T0 + 60)
        assert first(stored, 7, T0 + 20) == (7, T0 + 20)
        assert first(stored, 5, T0 + 61) == (8, T0 + 70)
        assert read_first_record(stored, [], 5, T0 + 71) == BatchesRead(None, 9)

    def test_a_marker_does_not_count_however_late_it_is(self) -> None:
        """E41"""
        stored = batch((5, T0), producer=1) + marker(6, 1, COMMIT, timestamp=T0 + 100) + batch((7, T0 + 2))
        assert first(stored, 5, T0 + 1) == (7, T0 + 2)

    @pytest.mark.parametrize("codec", [0, GZIP])
    def test_on_log_append_time_topics_they_are_those_of_the_batch(self, codec: int) -> None:
        stored = stamped_by_the_broker(batch((5, T0), (6, T0 + 60), (7, T0 + 20), codec=codec))
        assert first(stored, 5) == (5, T0 + 60)
        assert first(stored, 6, T0 + 60) == (6, T0 + 60)
        assert first(stored, 5, T0 + 61) is None

    def test_records_without_one_never_count(self) -> None:
        assert first(batch((5, -1), (6, T0)), 5, 0) == (6, T0)
        assert first(legacy((5, -1), magic=0), 5, 0) is None


class TestOldFormats:
    """Logs keep messages in the format in which they were written."""

    @pytest.mark.parametrize("codec", [0, GZIP])
    def test_have_timestamps_since_kafka_0_10(self, codec: int) -> None:
        stored = legacy((5, T0), (6, T0 + 6), (7, T0 + 7), codec=codec) + batch((8, T0 + 8))
        assert [first(stored, position) for position in (5, 6, 8)] == [(5, T0), (6, T0 + 6), (8, T0 + 8)]
        assert first(stored, 5, T0 + 7) == (7, T0 + 7)

    @pytest.mark.parametrize("codec", [0, GZIP])
    def test_have_none_before(self, codec: int) -> None:
        stored = legacy((5, -1), (6, -1), magic=0, codec=codec)
        assert [first(stored, position) for position in (5, 6)] == [(5, None), (6, None)]

    def test_are_passed_over_up_to_their_last_record(self) -> None:
        assert read_first_record(legacy((5, T0), (6, T0), codec=GZIP), [], 7) == BatchesRead(None, 7)


@pytest.mark.usefixtures("no_codec")
class TestMissingCodec:
    def test_costs_the_timestamp_where_the_offset_is_certain_and_is_named(self) -> None:
        stored = lz4(batch((5, T0), (6, T0 + 6)))
        for position in (5, 6):
            assert read_first_record(stored, [], position).record == FoundRecord(position, None, "lz4")

    def test_costs_nothing_where_the_header_tells_all(self) -> None:
        assert first(lz4(batch((5, T0))), 5, T0) == (5, T0)
        assert first(stamped_by_the_broker(lz4(batch((5, T0), (6, T0 + 6)))), 5) == (5, T0 + 6)
        assert first(lz4(batch((5, T0), (6, T0))), 5, T0 + 1) is None

    @pytest.mark.parametrize(
        ("stored", "at_or_after_ms"),
        [
            pytest.param(lz4(batch((6, T0), (8, T0), base=5)), None, id="compacted"),
            pytest.param(lz4(batch((5, T0), (6, T0 + 6))), T0 + 1, id="some of the records are too old"),
            pytest.param(lz4(legacy((8, T0))), None, id="before Kafka 0.11"),
        ],
    )
    def test_is_an_error_that_says_what_to_install_where_the_offset_is_not(
        self, stored: bytes, at_or_after_ms: int | None
    ) -> None:
        found = read_first_record(batch((4, T0 - 9)) + stored, [], 5, at_or_after_ms)
        assert (found.record, found.read_to) == (None, 5)
        assert found.error is not None
        assert (found.error.name, found.error.retriable) == ("UNSUPPORTED_COMPRESSION_TYPE", False)
        assert "lz4" in found.error.message
        assert "pip install 'airflow-kafka-offsets[codecs]'" in found.error.message

    def test_does_not_keep_aborted_batches_from_being_passed_over(self) -> None:
        stored = lz4(batch((5, T0), (7, T0), producer=1)) + marker(8, 1, ABORT)
        assert first(stored, 5, aborted=[(1, 5)]) is None


class TestBrokenBytes:
    def test_are_an_error_where_they_begin(self) -> None:
        good, bad = batch((5, T0)), bytearray(batch((6, T0), (7, T0 + 1)))
        bad[DefaultRecordBatch.HEADER_STRUCT.size :] = b"\xff" * (len(bad) - DefaultRecordBatch.HEADER_STRUCT.size)
        found = read_first_record(good + bytes(bad), [], 6)
        assert (found.record, found.read_to, found.error and found.error.name) == (None, 6, "CORRUPT_MESSAGE")

    def test_that_no_codec_makes_anything_of_are_an_error_too(self) -> None:
        bad = bytearray(batch((6, T0), (7, T0 + 1), codec=GZIP))
        bad[DefaultRecordBatch.HEADER_STRUCT.size + 12 :] = b"?" * 50
        found = read_first_record(bytes(bad[:8]) + struct.pack(">i", len(bad) - 12) + bytes(bad[12:]), [], 6)
        assert (found.record, found.error and found.error.name) == (None, "CORRUPT_MESSAGE")

    @settings(deadline=None)
    @given(st.binary(max_size=200), st.integers(0, 10))
    def test_never_raise(self, noise: bytes, position: int) -> None:
        found = read_first_record(batch((5, T0)) + noise, [AbortedTransaction(1, 2)], position)
        assert found.read_to >= position
