"""The census of a window: which of its offsets have a record, counted while the log had them all.

It outlives the topic's retention: a table can be compared with it long after. Compaction goes on removing records, so
of a compacted topic there is none.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.answers.records import LogContent, Runs
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import json_of

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Census:
    """Which offsets have a record.

    :param counts: how many, by partition.
    :param runs: these offsets, by partition; without those that nobody can tell, or that are too many to keep.
    """

    counts: Mapping[TopicPartition, int]
    runs: Mapping[TopicPartition, Runs]

    @classmethod
    def of(cls, contents: Iterable[LogContent]) -> Self:
        """What was counted, each range to its end."""
        found = list(contents)
        return cls(
            {TopicPartition.of(each): each.records for each in found},
            {TopicPartition.of(each): each.runs for each in found if each.runs is not None},
        )

    @property
    def records(self) -> int:
        return sum(self.counts.values())

    def records_in(self, cell: LogRange) -> Iterator[LogRange]:
        """The runs of a cell whose partition's are known."""
        runs = self.runs[TopicPartition.of(cell)]
        first = bisect_right(runs, cell.start_offset, key=lambda run: run[1])
        for start, end in takewhile(lambda run: run[0] < cell.end_offset, islice(runs, first, None)):
            yield cell._replace(start_offset=max(start, cell.start_offset), end_offset=min(end, cell.end_offset))

    def to_bytes(self) -> bytes:
        """What the ledger stores."""
        partitions = [[*key, count, self.runs.get(key)] for key, count in sorted(self.counts.items())]
        return json.dumps({"format": FORMAT, "partitions": partitions}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of :meth:`to_bytes`.

        :raises LedgerCorruptError: when it is something else.
        """
        try:
            fields = json_of(content)
            if fields["format"] != FORMAT:
                raise ValueError(f"format {fields['format']!r}")
            rows = [(TopicPartition(*row[:2]), int(row[2]), row[3]) for row in fields["partitions"]]
            runs = {key: tuple((int(start), int(end)) for start, end in own) for key, _, own in rows if own is not None}
            return cls({key: count for key, count, _ in rows}, runs)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not the census of a window: {error!r}.") from error
