"""The checksum of rows: if as many rows have the same checksum, they are the same rows. Spark's SQL for it, and what it
must be for a whole range, in closed form.

Each row adds (xor) two hashes: that of its offset, and that of the next offset. Where one offset follows another, the
hash between them is added twice, and so cancels out. Every offset of a range, once, comes to the hash of its start and
that of its end, however many offsets lie between.

Why that is enough: the checksum depends on the set of offsets that are there an odd number of times. Another set
differs by some runs of offsets, and the checksums by the xor of the hashes of all starts and ends of these runs. For
one run that is never zero, as the hash of a number is a bijection; for several, it is by a chance of one in 2^64. The
same set with as many rows has each offset once.

The hash is xxHash64 (https://xxhash.com), which Spark has as ``xxhash64``. No I/O here.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, Tally, total_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest

_SPARK_SEED = 42
"""With which Spark hashes the first column; each later one has the hash before as its seed."""
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class Checksum:
    """The checksum of a window's rows.

    :param salt: a number that nobody knows who only writes to a topic. Otherwise, records could be crafted of which a
        transform drops some and doubles others without changing the checksum.
    :param with_topic: whether the topic's name is part of the hash. It takes longer to hash than two numbers, so a
        window's only topic is left out: what was written is grouped by topic anyway.
    """

    salt: int
    with_topic: bool

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """A window's checksum."""
        salt = int(hashlib.sha256(f"{manifest.ledger_id}/{manifest.window}".encode()).hexdigest()[:15], 16)
        return cls(salt, len({each.topic for each in manifest.ranges}) > 1)

    @property
    def sql(self) -> str:
        """The checksum in Spark's SQL: an aggregate over the columns topic, partition and offset."""
        return f"bit_xor({hash_sql(f'{self.salt}L, `topic`' if self.with_topic else f'{self.salt}L')})"

    def every_offset(self, ranges: Sequence[LogRange]) -> PartitionTally:
        """What rows hold that have each offset once of some ranges of one partition, in order and not empty."""
        topic, partition = ranges[0].topic, ranges[0].partition
        seed = xxhash64(struct.pack("<q", self.salt), _SPARK_SEED)
        if self.with_topic:
            seed = xxhash64(topic.encode(), seed)
        seed = xxhash64(struct.pack("<i", partition), seed)
        found = count = total = 0
        for each in ranges:
            for end in (each.start_offset, each.end_offset):
                found ^= xxhash64(struct.pack("<q", end), seed)
            count += each.span
            total += offset_sum(each)
        first, last = ranges[0].start_offset, ranges[-1].end_offset - 1
        signed = found - (1 << 64) if found >> 63 else found  # as Java has it
        return PartitionTally(topic, partition, count, first, last, total, signed)


def hash_sql(seed: str) -> str:
    """What a row adds, in Spark's SQL.

    :param seed: the salt, and the topic; where the topic is null, Spark leaves it out of the hash.
    """
    place = f"{seed}, `partition`"
    # The largest of all numbers has no next one, and Spark's usual sum would end the query.
    return f"xxhash64({place}, `offset`) ^ xxhash64({place}, try_add(`offset`, 1L))"


def offset_sum(offsets: LogRange) -> int:
    """The sum of a range's offsets."""
    return (offsets.start_offset + offsets.end_offset - 1) * offsets.span // 2


def every_offset(manifest: Manifest, left: Iterable[LogRange]) -> tuple[PartitionTally, ...]:
    """What a complete output holds: each offset that is left of a window, once."""
    checksum = Checksum.of(manifest)
    return tuple(checksum.every_offset([each]) for each in left)


def complete(manifest: Manifest, left: Iterable[LogRange]) -> Tally:
    """The tally of a complete output. What only a read can count is unknown."""
    total = total_of(every_offset(manifest, left))
    return Tally(total.count, total.checksum, counted=False)


def xxhash64(content: bytes, seed: int) -> int:
    """xxHash64 of some bytes, unsigned."""
    at = len(content) // 32 * 32
    found = _stripes(content, at, seed) if at else seed + _P5
    found = (found + len(content)) & _MASK
    for (lane,) in struct.iter_unpack("<Q", content[at : at + (len(content) - at) // 8 * 8]):
        found = (_rotated(found ^ _round(0, lane), 27) * _P1 + _P4) & _MASK
        at += 8
    if len(content) - at >= 4:
        (lane,) = struct.unpack_from("<I", content, at)
        found = (_rotated(found ^ lane * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in content[at:]:
        found = _rotated(found ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    return found ^ found >> 32


def _stripes(content: bytes, length: int, seed: int) -> int:
    """The first bytes, a multiple of 32, by four sums side by side."""
    sums = [(seed + start) & _MASK for start in (_P1 + _P2, _P2, 0, -_P1)]
    for lanes in struct.iter_unpack("<4Q", content[:length]):
        sums = [_round(each, lane) for each, lane in zip(sums, lanes, strict=True)]
    found = sum(_rotated(each, bits) for each, bits in zip(sums, (1, 7, 12, 18), strict=True))
    for each in sums:
        found = ((found ^ _round(0, each)) * _P1 + _P4) & _MASK
    return found


def _round(before: int, lane: int) -> int:
    return _rotated((before + lane * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> 64 - bits) & _MASK
