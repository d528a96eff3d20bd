"""The audit: what a run read and wrote, counted, and the verdict against the manifest.

Writing is counted per partition by one scan of three columns. Where every offset has a record, that is all: it has to
hold each offset once. Where offsets may be without one, and with strict time, reading is summed up over the whole run
too, in the same pass (a Spark ``Observation`` can't group). Equal checksums make the two the same set of (topic,
partition, offset), so what holds per partition for the one holds for the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.answers.records import GapCauses
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult, total_of
from airflow_kafka_offsets.offsets.proof.shortfall import counted_twice, difference, shortfall
from airflow_kafka_offsets.offsets.windows.kafka_source import source_problems, unknowable
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run is proved.

    :param read_problems: where the rows read don't fit the manifest.
    :param written_problems: where the rows written aren't the rows read.
    :param gaps: offsets in range without a record: transaction markers, aborted or compacted records. None are possible
        on a plain topic.
    :param explained: what the log says of them; None where nobody asked it.
    :param unknowable: what Kafka couldn't tell of where the rows were read, in words; brokers of 2.8 and later can.
    :param may_pass: nothing is wrong but what another attempt may not find: rows that were counted more than once.
    """

    read_problems: tuple[str, ...]
    written_problems: tuple[str, ...]
    gaps: int
    explained: GapCauses | None = None
    unknowable: tuple[str, ...] = ()
    may_pass: bool = False

    @property
    def proved(self) -> bool:
        """Nothing lost, nothing doubled."""
        return not self.read_problems and not self.written_problems

    def __str__(self) -> str:
        if not self.proved:
            return shorten(self.read_problems + self.written_problems)
        gaps = f", {self.gaps} offsets without a record" if self.gaps else ""
        causes = f" ({self.explained})" if self.gaps and self.explained else ""
        unknown = f", but Kafka doesn't tell {shorten(self.unknowable)}" if self.unknowable else ""
        return "read = written = log" + gaps + causes + unknown


def judge(manifest: Manifest, result: RunResult, publication: Publication | None = None) -> Verdict:
    """Compare a run with its manifest. Offsets without a record pass where the run or the topic allows them.

    :param publication: what was published of the run; None before that.
    """
    ranges = {(each.topic, each.partition): each for each in manifest.ranges}
    written = {(each.topic, each.partition): each for each in result.written}
    strays = [f"{topic}-{partition} isn't in the window" for topic, partition in sorted(written.keys() - ranges.keys())]
    if len(written) < len(result.written):
        strays.append("a partition's rows are counted twice")
    judged = [_judge_partition(each, written.get(key)) for key, each in ranges.items()]
    problems = strays + [problem for problem in judged if problem]
    if manifest.sha256 != result.manifest_sha256:
        problems.append(f"the run used another manifest ({result.manifest_sha256})")
    problems.extend(source_problems(manifest, result.source))
    written_rows, unread = total_of(result.written), bool(result.unread)
    different = list(difference(result.read, written_rows, manifest.span, result.task_starts, unread=unread))
    unsure = counted_twice(result.read, result.task_starts) or _sides_unknown(result)
    may_pass = not problems and not unread and unsure
    problems.extend(_misplaced(result))
    if not different:
        problems.extend(shortfall(manifest, result))
    gaps = max(0, manifest.span - result.read.count)
    written_problems = (*different, *_misstated(publication, result))
    unknown = tuple(unknowable(manifest, result.source))
    return Verdict(tuple(problems), written_problems, gaps, unknowable=unknown, may_pass=may_pass)


def every_offset_once(manifest: Manifest, written: Iterable[PartitionTally]) -> bool:
    """Whether there are as many rows as offsets, and nothing of their sums says that one of them is twice there."""
    rows = {(each.topic, each.partition): each for each in written}
    ranges = {(each.topic, each.partition): each for each in manifest.non_empty()}
    return rows.keys() == ranges.keys() and all(
        rows[key].count == each.span and _judge_partition(each, rows[key]) is None for key, each in ranges.items()
    )


def _judge_partition(pinned: OffsetRange, tally: PartitionTally | None) -> str | None:
    """What is wrong with one partition's rows, if anything: outside the range, or more of them than offsets."""
    name = f"{pinned.topic}-{pinned.partition}"
    if tally is None:
        return None
    if tally.min_offset < pinned.start_offset or tally.max_offset >= pinned.end_offset:
        return (
            f"{name} holds offsets {tally.min_offset} to {tally.max_offset}, "
            f"outside [{pinned.start_offset}, {pinned.end_offset})"
        )
    between = tally.max_offset - tally.min_offset + 1
    if tally.count > between:
        return f"{name} holds {tally.count} rows for {between} offsets"
    if tally.count == between and tally.offset_sum != _sum_of(tally.min_offset, tally.max_offset):
        return f"{name} holds the right number of rows, but not each offset once"
    return None


def _sum_of(first: int, last: int) -> int:
    """Of all offsets from one to another, both of them included."""
    return (first + last) * (last - first + 1) // 2


def _misstated(publication: Publication | None, result: RunResult) -> Iterable[str]:
    """What a publication says otherwise than the run's own counts, which it was made from."""
    if publication is None:
        return
    counted = {
        "attempt": result.attempt,
        "manifest_sha256": result.manifest_sha256,
        "output": result.output,
        "outside": result.outside_written,
        "rows": result.rows_written,
        "sink": result.sink,
    }
    for name, value in counted.items():
        if getattr(publication, name) != value:
            yield f"its publication says {name} {getattr(publication, name)}, and the run's result {value}"


def _sides_unknown(result: RunResult) -> bool:
    return result.strict_time and result.read.outside_window is None


def _misplaced(result: RunResult) -> Iterable[str]:
    """What is wrong with the two sides of an output of strict time: the rows' column may have been changed."""
    if _sides_unknown(result):
        yield (
            "Spark has read some records more than once, so that nobody knows how many lie outside the window's time, "
            "which strict time proves: sort within partitions (sortWithinPartitions) in place of the whole, or run the "
            "task again where an executor was lost"
        )
    elif result.strict_time and result.outside_written != result.read.outside_window:
        yield (
            f"{result.read.outside_window} of {result.read.count} rows lie outside its time, and the output keeps "
            f"{result.outside_written} apart: leave the column outside_window as read() made it"
        )
