"""Gaps: the offsets of a window for which a run read no record, and what its topics' logs say of them.

A log is looked at after the load, and may have changed. On topics that nothing compacts it has the same records until
retention takes them, so that as many must have been written. On compacted ones it may have fewer: the comparison is
one-sided there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_kafka_offsets.offsets.answers.records import GapCauses, LogContent, LogContents, LogRange
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest


def ranges_with_gaps(manifest: Manifest, result: RunResult) -> list[LogRange]:
    """The ranges with fewer rows than offsets: the only ones in which there is something to explain."""
    rows = {(each.topic, each.partition): each.count for each in result.written}
    return [
        LogRange(each.topic, each.partition, each.start_offset, each.end_offset)
        for each in manifest.ranges
        if rows.get((each.topic, each.partition), 0) < each.span
    ]


def explain(result: RunResult, contents: LogContents, compacted: Collection[str]) -> tuple[GapCauses, tuple[str, ...]]:
    """Why there is no row at some offsets, and what the log says that doesn't fit the rows.

    :param contents: what was counted in the ranges with gaps; complete, or gone from the log.
    :param compacted: topics that are or were compacted.
    """
    rows = {(each.topic, each.partition): each for each in result.written}
    markers = aborted = missing = removed = 0
    problems: list[str] = []
    for each in contents:
        tally = rows.get((each.topic, each.partition)) or _no_rows(each)
        problems.extend(_misfits(each, tally, each.topic in compacted))
        markers, aborted, missing = markers + each.markers, aborted + each.aborted, missing + each.missing
        removed += tally.count - each.records
    return GapCauses(markers, aborted, missing - removed, removed), tuple(problems)


def _no_rows(content: LogContent) -> PartitionTally:
    return PartitionTally(content.topic, content.partition, 0, 0, 0, 0, 0)


def _misfits(content: LogContent, rows: PartitionTally, is_compacted: bool) -> Iterator[str]:
    """What one partition's log says that doesn't fit its rows, if anything."""
    name, records, written = f"{content.topic}-{content.partition}", content.records, rows.count
    if content.is_gone:
        gaps = content.end_offset - content.start_offset - written
        yield f"{gaps} gaps of {name} can't be explained any more: {content.error and content.error.message}"
    elif written < records:
        yield f"{name} has {records} records in the log, and {written} were written"
    elif written > records and not is_compacted:
        yield f"{name} has {records} records in the log, and {written} were written, though nothing compacts it"
    elif written > records + content.missing:
        yield (
            f"{name} has {records} records in the log and {content.missing} offsets that may have had one, and "
            f"{written} were written: some stand at markers or aborted records"
        )
    elif written == records and content.offset_sum not in (None, rows.offset_sum):
        yield f"{name} has as many records in the log as were written, at other offsets"
