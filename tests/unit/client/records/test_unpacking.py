"""Reading compressed batches: as kafka-python reads them, and no further than a batch may go."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st
from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from airflow_kafka_offsets.client.records import batch_records
from airflow_kafka_offsets.client.records.batch_records import MOST_BYTES, TooLargeError, records_of, unpack
from airflow_kafka_offsets.client.records.record_batches import (
    BatchesRead,
    FoundRecord,
    count_batches,
    read_first_record,
)
from airflow_kafka_offsets.offsets.answers.records import LogContent
from tests.unit.client.records.stored_batches import GZIP, T0, VALUE, Record, batch, legacy, patched

SNAPPY, LZ4, ZSTD = 2, 3, 4
MODULES = {SNAPPY: "snappy", LZ4: "lz4.frame", ZSTD: "zstandard"}
MIB = 1024 * 1024
LATE = T0 + 1_000

RECORDS = st.lists(st.integers(0, 2_000), min_size=1, max_size=20)


def needs(codec: int) -> None:
    if codec in MODULES:
        pytest.importorskip(MODULES[codec])


def only(stored: bytes) -> object:
    return next(iter(MemoryRecords(stored)))


def told(stored: bytes) -> list[Record]:
    return [(each.offset, each.timestamp) for each in records_of(only(stored))]


def by_kafka_python(stored: bytes) -> list[Record]:
    return [(each.offset, each.timestamp) for each in only(stored)]  # type: ignore[attr-defined]


def with_records(packed: bytes, codec: int, count: int, last_delta: int | None = None) -> bytes:
    """A batch with this after its header; its newest record is late."""
    header = DefaultRecordBatch.HEADER_STRUCT
    last = count - 1 if last_delta is None else last_delta
    return header.pack(0, header.size - 12 + len(packed), 0, 2, 0, codec, last, T0, LATE, -1, -1, -1, count) + packed


def zipped(mib: int, head: bytes = b"") -> bytes:
    packer, zeros = zlib.compressobj(9, wbits=31), bytes(MIB)
    return b"".join([packer.compress(head), *(packer.compress(zeros) for _ in range(mib)), packer.flush()])


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A record whose value is 100 MiB of zeros, and, so the header says, a late one after it."""
    size = 100 * MIB
    written = bytearray()
    for number in (size + 11, 0, 0, 0, -1, size):  # length, attributes, timestamp, offset, key and value
        unpacking_varint(number, written)
    return with_records(zipped(100, bytes(written)), GZIP, count=3, last_delta=5)


def unpacking_varint(number: int, written: bytearray) -> None:
    value = (number << 1) ^ (number >> 63)
    while value > 0x7F:
        written.append(0x80 | (value & 0x7F))
        value >>= 7
    written.append(value)


class TestEveryCodec:
    @pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
    @given(RECORDS)
    @settings(max_examples=30)
    def test_reads_what_kafka_python_reads(self, codec: int, stamps: list[int]) -> None:
        needs(codec)
        stored = batch(*((7 + number, T0 + each) for number, each in enumerate(stamps)), codec=codec)
        assert told(stored) == by_kafka_python(stored)

    @pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (0, GZIP), (1, GZIP), (1, SNAPPY), (1, LZ4)])
    @given(RECORDS)
    @settings(max_examples=20)
    def test_reads_the_messages_of_before_as_well(self, magic: int, codec: int, stamps: list[int]) -> None:
        needs(codec)
        records: list[Record] = [(7 + number, T0 + each) for number, each in enumerate(stamps)]
        stored = legacy(*(records if codec else records[:1]), magic=magic, codec=codec)
        assert told(stored) == by_kafka_python(stored)

    @pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
    @pytest.mark.parametrize("cut", [1, 8, 20])
    def test_that_ends_early_is_an_error_and_never_a_shorter_batch(self, codec: int, cut: int) -> None:
        needs(codec)
        stored = batch(*((number, T0) for number in range(20)), codec=codec)
        packed = stored[DefaultRecordBatch.HEADER_STRUCT.size :]
        found = read_first_record(with_records(packed[:-cut], codec, 20), [], 0, LATE)
        assert found.record is None
        assert found.error is not None
        assert found.error.name == "CORRUPT_MESSAGE"

    def test_may_come_in_several_members(self) -> None:
        stored = batch((0, T0), (1, T0 + 5))
        records = stored[DefaultRecordBatch.HEADER_STRUCT.size :]
        packed = gzip.compress(records[:40]) + gzip.compress(records[40:])
        assert [offset for offset, _ in told(with_records(packed, GZIP, 2))] == [0, 1]

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_that_nobody_knows_is_refused_by_name(self, codec: int) -> None:
        with pytest.raises(UnsupportedCodecError):
            told(with_records(b"\0" * 20, codec, 2))


class TestBombs:
    """What they cost a process: :mod:`.test_bombs`."""

    @pytest.mark.parametrize("read", [read_first_record, count_batches])
    def test_past_the_most_are_an_error_of_their_partition(self, bomb: bytes, read: Callable[..., object]) -> None:
        if read is count_batches:
            error = count_batches(bomb, [], LogContent("t", 0, 0, 3)).error
        else:
            error = read_first_record(bomb, [], 0, LATE).error
        assert error is not None
        assert (error.name, error.retriable) == ("MESSAGE_TOO_LARGE", False)
        assert "up to offset 5" in error.message

    @pytest.mark.parametrize("old", [False, True])
    def test_of_tiny_records_end_too(self, monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
        monkeypatch.setattr(batch_records, "MOST_RECORDS", 10)
        records = [(number, T0) for number in range(11)]
        with pytest.raises(TooLargeError):
            told(legacy(*records, codec=GZIP) if old else batch(*records, codec=GZIP))

    def test_a_zstd_frame_that_wants_gigabytes_for_its_window_is_too_large(self) -> None:
        zstandard = pytest.importorskip("zstandard")
        wide = zstandard.ZstdCompressionParameters(window_log=27)
        packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
        packed = packer.compress(bytes(100)) + packer.flush()
        with pytest.raises(TooLargeError):
            unpack(ZSTD, memoryview(packed))

    def test_several_in_an_answer_are_asked_for_one_after_the_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """So that the deadline holds, whatever an answer unpacks to."""
        monkeypatch.setattr("airflow_kafka_offsets.client.records.record_batches._LONGEST_S", 0.0)
        stored = batch((0, T0), (2, T0), codec=GZIP) + batch((3, T0), (5, T0), codec=GZIP)
        assert read_first_record(stored, [], 0, LATE) == BatchesRead(None, 3)
        assert count_batches(stored, [], LogContent("t", 0, 0, 6)).counted_to == 3


class TestLies:
    @pytest.mark.parametrize("count", [1_000_000, 3])
    def test_more_records_than_there_are_is_an_error(self, count: int) -> None:
        stored = patched(bytearray(batch((0, T0), (1, T0 + 1), codec=GZIP)), 0, 5, count=count)
        found = read_first_record(stored, [], 0, T0 + 1)
        assert found.record == FoundRecord(1, T0 + 1), "it is there"
        found = read_first_record(with_records(stored[61:], GZIP, count, 2**31 - 1), [], 0, LATE)
        assert (found.record, found.error and found.error.name) == (None, "CORRUPT_MESSAGE")

    def test_a_negative_number_of_records_is_an_error(self) -> None:
        stored = patched(bytearray(batch((0, T0))), 0, 5, count=-7)
        found = read_first_record(stored, [], 0)
        assert (found.record, found.error and found.error.name) == (None, "CORRUPT_MESSAGE")

    @pytest.mark.parametrize("length", [-1, -100, 2**31 - 1, 2**62])
    def test_a_length_that_lies_is_an_error(self, length: int) -> None:
        written = bytearray()
        unpacking_varint(length, written)
        stored = with_records(gzip.compress(bytes(written) + b"\0" * 30), GZIP, 2, 5)
        found = read_first_record(stored, [], 0, LATE)
        assert (found.record, found.error and found.error.name) == (None, "CORRUPT_MESSAGE")

    @pytest.mark.parametrize("length", [-12, -100, 0, 2**31 - 1])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_a_length_within_an_old_message_that_lies_is_an_error(self, magic: int, length: int) -> None:
        """With -12 a reader that believes it stands still for ever."""
        inner = bytearray(legacy((0, T0), magic=magic))
        struct.pack_into(">i", inner, 8, length)
        found = read_first_record(wrapped(bytes(inner), magic), [], 0)
        assert (found.record, found.error and found.error.name) == (None, "CORRUPT_MESSAGE")

    @pytest.mark.parametrize("magic", [0, 1])
    def test_messages_within_messages_within_messages_are_an_error(self, magic: int) -> None:
        nested = legacy((0, T0), magic=magic)
        for _ in range(5):
            nested = wrapped(nested, magic)
        found = read_first_record(nested, [], 0)
        assert (found.record, found.error and found.error.name) == (None, "CORRUPT_MESSAGE")

    def test_a_snappy_block_that_says_that_it_is_large_is_not_believed(self) -> None:
        pytest.importorskip("snappy")
        for size, error in ((2**32 - 1, TooLargeError), (MOST_BYTES, ValueError)):
            written = bytearray()
            while size > 0x7F:
                written.append(0x80 | (size & 0x7F))
                size >>= 7
            written.append(size)
            with pytest.raises(error):
                unpack(SNAPPY, memoryview(bytes(written) + VALUE))


def wrapped(inner: bytes, magic: int) -> bytes:
    """A compressed message with messages within."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(0, T0, None, gzip.compress(inner))
    built = bytearray(builder.build())
    built[17] |= GZIP
    return bytes(built)
