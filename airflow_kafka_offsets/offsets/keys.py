"""Keys: which partition a record's key selects by default in Kafka's Java producer and in kafka-python.

Both hash the key's bytes with murmur2, clear the sign bit, and take the result modulo the topic's partition count.
librdkafka does the same when ``partitioner`` is ``murmur2`` or ``murmur2_random``; its default is CRC32.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_32_BITS = 0xFFFFFFFF
_NO_SIGN = 0x7FFFFFFF


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition that a key belongs to. An empty key is a key; a record without a key may be in any partition.

    :param partition_count: the topic's number of partitions, 1 or more. Another number gives another partition.
    """
    return (murmur2(key) & _NO_SIGN) % partition_count


def murmur2(content: bytes) -> int:
    """32-bit MurmurHash2, unsigned, with the seed of Kafka's ``Utils.murmur2``."""
    whole = len(content) - len(content) % 4
    hashed = _SEED ^ len(content)
    for start in range(0, whole, 4):
        word = _times(int.from_bytes(content[start : start + 4], "little"))
        hashed = _times(hashed) ^ _times(word ^ (word >> 24))
    if whole < len(content):
        hashed = _times(hashed ^ int.from_bytes(content[whole:], "little"))
    hashed = _times(hashed ^ (hashed >> 13))
    return hashed ^ (hashed >> 15)


def _times(number: int) -> int:
    return (number * _FACTOR) & _32_BITS
