"""The checksum of rows: two hashes for a whole range, and another value for every other set of offsets."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import xor

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.offsets.proof.checksum import Checksum, complete, every_offset, xxhash64
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of
from tests.unit.spark.manifests import manifest_of

MANIFEST = manifest_of([("flights", 0, 100, 140), ("flights", 1, 7, 7), ("flights", 2, 0, 1)])


def of_rows(manifest: Manifest, offsets: Iterable[int], partition: int = 0) -> int:
    """The checksum of a topic's rows, one by one, as Spark sums them up; without a sign."""
    place = struct.pack("<i", partition)
    seed = xxhash64(place, xxhash64(struct.pack("<q", Checksum.of(manifest).salt), 42))
    found = (xxhash64(struct.pack("<q", each), seed) for offset in offsets for each in (offset, offset + 1))
    return reduce(xor, found, 0)


def unsigned(number: int) -> int:
    return number % (1 << 64)


class TestTheHash:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (b"", 0xEF46DB3751D8E999),
            (b"a", 0xD24EC4F1A98C6E5B),
            (b"abc", 0x44BC2CF5AD770999),
            (b"The quick brown fox jumps over the lazy dog", 0x0B242D361FDA71BC),
        ],
    )
    def test_is_xxhash64_with_its_published_values(self, content: bytes, expected: int) -> None:
        assert xxhash64(content, 0) == expected


class TestACompleteOutput:
    def test_has_the_sums_of_its_rows_one_by_one(self) -> None:
        first, last = every_offset(MANIFEST, left_of(MANIFEST))
        assert (first.partition, first.count, first.min_offset, first.max_offset) == (0, 40, 100, 139)
        assert first.offset_sum == sum(range(100, 140))
        assert unsigned(first.checksum) == of_rows(MANIFEST, range(100, 140))
        assert (last.partition, last.count, last.offset_sum) == (2, 1, 0)
        assert unsigned(last.checksum) == of_rows(MANIFEST, [0], partition=2)

    def test_is_summed_up_over_all_partitions(self) -> None:
        first, last = every_offset(MANIFEST, left_of(MANIFEST))
        assert complete(MANIFEST, left_of(MANIFEST)) == Tally(41, first.checksum ^ last.checksum, counted=False)

    def test_takes_as_long_for_a_trillion_offsets(self) -> None:
        wide = manifest_of([("flights", 0, 0, 10**12)])
        (whole,) = every_offset(wide, left_of(wide))
        assert whole.count == 10**12
        assert whole.offset_sum == 10**12 * (10**12 - 1) // 2


class TestOtherRows:
    @given(st.lists(st.integers(98, 141), min_size=40, max_size=40))
    def test_in_the_same_number_have_another_checksum(self, offsets: list[int]) -> None:
        whole = sorted(offsets) == list(range(100, 140))
        assert (of_rows(MANIFEST, offsets) == unsigned(every_offset(MANIFEST, left_of(MANIFEST))[0].checksum)) == whole

    @pytest.mark.parametrize("dropped", [100, 101, 120, 139])
    @pytest.mark.parametrize("doubled", [102, 119, 138])
    def test_of_which_one_is_dropped_and_another_one_doubled_have_another_checksum(
        self, dropped: int, doubled: int
    ) -> None:
        kept = [each for each in range(100, 140) if each != dropped]
        assert of_rows(MANIFEST, [*kept, doubled]) != unsigned(every_offset(MANIFEST, left_of(MANIFEST))[0].checksum)

    def test_with_the_same_sum_of_offsets_have_another_checksum(self) -> None:
        swapped = [*range(104, 140), 101, 101, 102, 102]  # for 100 to 103
        assert sum(swapped) == sum(range(100, 140))
        assert of_rows(MANIFEST, swapped) != unsigned(every_offset(MANIFEST, left_of(MANIFEST))[0].checksum)


class TestTheSalt:
    """Without it, records could be made of which a transform drops some and doubles others, with the same sums."""

    def test_is_of_a_ledger_and_a_window_so_that_nobody_who_writes_to_a_topic_computes_the_sums(self) -> None:
        other, left = replace(MANIFEST, ledger_id="0e" * 16), left_of(MANIFEST)
        assert complete(other, left).checksum != complete(MANIFEST, left).checksum


def test_equal_offsets_of_two_topics_do_not_cancel_each_other_out() -> None:
    two = manifest_of([("flights", 0, 100, 140), ("orders", 0, 100, 140)])
    assert complete(two, left_of(two)).checksum != 0
