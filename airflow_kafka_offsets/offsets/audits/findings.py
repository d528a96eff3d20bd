"""Findings: where a table differs from what its topic's log holds, as ranges; and the rule that says so of each offset,
in Spark's SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.errors import number_of


class Problem(StrEnum):
    """How a table differs."""

    MISSING = "missing"
    """The log has a record there, and the table no row."""
    DOUBLED = "doubled"
    """The table has several rows of one offset."""
    FOREIGN = "foreign"
    """The table has a row, and the log no record: a marker, or a record of an aborted transaction, or none at all."""
    NOT_YET = "not_yet"
    """Missing, and the writer's group hasn't come so far."""
    UNKNOWABLE = "unknowable"
    """The log no longer has these offsets, and nobody has counted them in time."""


UNCONFIRMED = "unconfirmed"
"""Not a problem: a row of a compacted topic whose record the log doesn't have, as compaction may have removed it."""
_AMOUNTS = {
    Problem.MISSING: "record",
    Problem.DOUBLED: "row",
    Problem.FOREIGN: "row",
    Problem.NOT_YET: "record",
    Problem.UNKNOWABLE: "offset",
}
"""What is counted of each: rows too many, for those that are doubled."""


class Finding(NamedTuple):
    """A range of offsets with the same problem. Sorts by topic, partition and start, within a problem.

    :param problem: one of :class:`Problem`, or :data:`UNCONFIRMED`.
    :param start_offset: its first offset.
    :param end_offset: one past its last. Between the two, offsets without a record may lie.
    :param amount: how many records or rows, see :class:`Problem`.
    :param first_ms: the earliest timestamp of its records, Unix milliseconds; None where the log has none.
    :param last_ms: the latest.
    :param key_hash: Spark's ``xxhash64`` of the first record's key, as 16 hex digits; None without a key.
    """

    problem: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    amount: int
    first_ms: int | None = None
    last_ms: int | None = None
    key_hash: str | None = None

    def __str__(self) -> str:
        last = self.end_offset - 1
        place = f"{self.start_offset}" if last == self.start_offset else f"{self.start_offset} to {last}"
        return f"{self.topic}-{self.partition} at {place}"


class Known(NamedTuple):
    """What is known of a partition before its offsets are compared.

    :param log_start: the first offset that its log still has.
    :param written_to: the writer's commit: what is below it should be in the table. None if no group was named.
    :param compacted: whether compaction may have removed records that the table has.
    """

    log_start: int
    written_to: int | None
    compacted: bool


RULE = """CASE
  WHEN `offset` < `log_start` THEN IF(`in_table` > 1, 'doubled', NULL)
  WHEN `in_log` = 0 THEN IF(NOT `compacted`, 'foreign', IF(`in_table` > 1, 'doubled', 'unconfirmed'))
  WHEN `in_table` = 0 THEN IF(`offset` >= `written_to`, 'not_yet', 'missing')
  WHEN `in_table` > 1 THEN 'doubled'
END"""
"""What is wrong at an offset, in Spark's SQL: of columns with how often the log and the table have it, and of
:class:`Known`."""
AMOUNT = "CASE WHEN `problem` = 'doubled' THEN `in_table` - 1 WHEN `problem` = 'foreign' THEN `in_table` ELSE 1 END"
"""How much that counts."""


def problem_words(counts: Mapping[str, int]) -> str:
    """What is wrong with a table, in words: ``3 records missing, 1 row doubled``; empty for a complete one."""
    return ", ".join(_words(counts))


def _words(counts: Mapping[str, int]) -> Iterator[str]:
    for problem, noun in _AMOUNTS.items():
        if counts.get(problem):
            yield f"{number_of(counts[problem], noun)} {problem.replace('_', ' ')}"
