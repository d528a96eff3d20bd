"""Keys: the partition that Kafka's own producers put a key in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_pythons

from airflow_kafka_offsets.offsets.keys import murmur2, partition_of_key

KEYS = st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode))


class TestMurmur2:
    @pytest.mark.parametrize(
        ("key", "hashed"),
        [
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
        ],
    )
    def test_is_what_the_java_clients_own_test_has(self, key: bytes, hashed: int) -> None:
        """``UtilsTest.testMurmur2`` of Apache Kafka; Java's int has a sign."""
        assert murmur2(key) == hashed % 2**32

    @given(KEYS)
    def test_is_what_kafka_python_has(self, key: bytes) -> None:
        assert murmur2(key) == kafka_pythons(key)

    @pytest.mark.parametrize("key", [b"", b"\x00", b"\xff" * 7, b"k" * 10_000])
    def test_keys_of_any_length_have_one(self, key: bytes) -> None:
        assert murmur2(key) == kafka_pythons(key)


class TestPartition:
    @pytest.mark.parametrize(
        ("key", "partitions"),
        [
            ("", (0, 1, 3, 2, 81)),
            ("a", (0, 0, 4, 5, 24)),
            ("21", (0, 0, 0, 3, 40)),
            ("foobar", (0, 0, 0, 0, 66)),
            ("customer-4711", (0, 0, 0, 6, 36)),
            ("ключ", (0, 0, 2, 4, 24)),
            ("a-little-bit-long-string", (0, 0, 2, 1, 12)),
        ],
    )
    def test_is_what_the_java_client_says(self, key: str, partitions: tuple[int, ...]) -> None:
        """``BuiltInPartitioner.partitionForKey`` of kafka-clients 3.9.2, of topics with so many partitions."""
        assert tuple(partition_of_key(key.encode(), count) for count in (1, 2, 6, 7, 100)) == partitions

    @given(KEYS)
    def test_a_topic_with_one_partition_has_all_keys_there(self, key: bytes) -> None:
        assert partition_of_key(key, 1) == 0
