"""The shortfall: why a window has other rows than offsets, in words that name the cause and the way on.

Three things make fewer rows than offsets: a transform that drops rows, which the count of what is read sees; a read
that is stopped early, which it doesn't see, and Kafka does; and a log without a record at some offsets. Only the last
one is fine, where the topic or the user says so. Where every offset has to have a row, nothing is counted as it is
read, and the three can't be told apart. No I/O here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import shorten

if TYPE_CHECKING:
    from airflow_kafka_offsets.offsets.proof.run_result import RunResult, Tally
    from airflow_kafka_offsets.offsets.windows.manifest import Manifest

KEEP_EVERY_RECORD = (
    "Write every record once: flag rows in a column where you would drop them, and filter what is published, "
    "read_published(...).where(...)"
)
"""The way out for all that drops or doubles rows."""


def difference(read: Tally, written: Tally, span: int, task_starts: int | None, *, unread: bool) -> Iterator[str]:
    """Why what was written isn't what was read; nothing where it is.

    :param span: offsets in the window.
    :param task_starts: as in :class:`~airflow_kafka_offsets.offsets.proof.run_result.RunResult`.
    :param unread: whether Kafka has records that aren't in the output: then they were dropped, whatever was counted.
    """
    if not read.counted:
        if read.count != span:
            yield (
                f"nobody counted what was read, and the result says {read.count} rows for {span} offsets: its file was "
                "changed. Load the window again"
            )
        elif read.count == written.count and not read.same_rows(written):
            yield (
                f"wrote {written.count} rows, as many as there are offsets, but not each of them once: topic, "
                "partition or offset was changed between read() and write(), or some rows were dropped and as many "
                "doubled. Leave these three columns as they are"
            )
        return
    counts = f"read {read.count} rows, wrote {written.count}"
    if read.count > span or _is_multiple(read.starts, task_starts):
        yield (
            f"{counts}, of {span} offsets: some were read more than once, by a sort, a repartitionByRange, or anew for "
            "an executor that was lost, so that the count proves nothing. "
            "Sort within partitions (sortWithinPartitions), or run the task again where an executor was lost"
        )
    elif written.count < read.count:
        yield (
            f"{counts}: the {read.count - written.count} others were dropped between read() and write(), by a "
            "filter, a limit, a join, dropDuplicates or a sink that drops rows. "
            f"{KEEP_EVERY_RECORD}{'' if unread else _or_read_anew(read, task_starts)}"
        )
    elif written.count > read.count:
        yield (
            f"{counts}: rows were doubled between read() and write(), by explode, a join that matches several, or a "
            "union; or another action (count(), show(), take()) ran on the rows before write(), and is the one that "
            f"was counted. {KEEP_EVERY_RECORD}, with write() as the only action"
        )
    elif not read.same_rows(written):
        yield (
            f"read and wrote {read.count} rows each, but not the same ones: topic, partition or offset was changed "
            "between read() and write(), or some rows were dropped and as many doubled. Leave these three columns as "
            "they are"
        )


def _is_multiple(read: int | None, written: int | None) -> bool:
    """Whether each task began several times: no other sum of hashes is a multiple."""
    return bool(read and written) and read != written and (read or 0) % (written or 1) == 0


def counted_twice(read: Tally, task_starts: int | None) -> bool:
    """Whether some rows may have been counted more than once: tasks began with other records than were written, or
    with one of them again. A transform that drops a task's first row looks the same.

    :param task_starts: as in :class:`~airflow_kafka_offsets.offsets.proof.run_result.RunResult`.
    """
    return None not in (read.starts, task_starts) and read.starts != task_starts


def _or_read_anew(read: Tally, task_starts: int | None) -> str:
    """Where too many rows may be counted for one more reason, and nothing tells."""
    lost = "; or they were read anew for an executor that was lost: then run the task again"
    return lost if counted_twice(read, task_starts) else ""


def shortfall(manifest: Manifest, result: RunResult) -> Iterator[str]:
    """Why there are other rows than offsets, though what was read was written, or nobody counted it; nothing where that
    is allowed, and Kafka was asked."""
    if not result.read.counted:
        yield from _not_once(manifest, result)
        return
    if result.rows_written >= manifest.span:
        return
    if result.unread:
        yield (
            f"Kafka has records of the window that were not read, such as {shorten(map(str, result.unread))}: the read "
            "was stopped early, by limit, head, take, a join with an empty side, or a function that stops iterating "
            f"between read() and write(). {KEEP_EVERY_RECORD}"
        )
        return
    forbidden = list(_gaps_not_allowed(manifest, result))
    yield from forbidden
    if forbidden:
        return
    if result.unread is None:
        yield (
            f"{result.rows_written} rows for {manifest.span} offsets, and Kafka wasn't asked whether the others have "
            "records that were not read. Load the window again"
        )
    elif result.task_starts != result.read.starts:
        yield (
            "Spark's tasks began with other records than were written, so that some were read more than once, by a "
            "sort, a repartitionByRange, or anew for an executor that was lost; or Spark split the window otherwise "
            "than plan() says. Run the task again where an executor was lost; otherwise sort within partitions "
            "(sortWithinPartitions), or read(minPartitions='1')"
        )


def _not_once(manifest: Manifest, result: RunResult) -> Iterator[str]:
    """Which partitions lack rows, or have some too many, where every offset has to have one."""
    rows = {(each.topic, each.partition): each.count for each in result.written}
    more = {
        f"{each.topic}-{each.partition}": (rows.get((each.topic, each.partition), 0) - each.span, each.span)
        for each in manifest.ranges
    }
    lacking = [f"{name} lacks {-count} of {span} rows" for name, (count, span) in more.items() if count < 0]
    doubled = [f"{name} has {count} rows more than offsets" for name, (count, _) in more.items() if count > 0]
    if lacking:
        yield (
            f"{shorten(lacking)}. Either they were dropped between read() and write(), by a filter, a join, "
            "dropDuplicates or a sink that drops rows; or the read was stopped early (limit, head, take); or the log "
            f"has no record there, as transactions leave it. {KEEP_EVERY_RECORD}; if producers write in transactions, "
            "allow gaps (allow_gaps=True)"
        )
    if doubled:
        yield (
            f"{shorten(doubled)}: rows were doubled between read() and write(), by explode, a join that matches "
            f"several, or a union. {KEEP_EVERY_RECORD}"
        )


def _gaps_not_allowed(manifest: Manifest, result: RunResult) -> Iterator[str]:
    """Topics with fewer rows than offsets, though nothing compacts them and nobody allowed it."""
    rows = Counter[str]()
    for tally in result.written:
        rows[tally.topic] += tally.count
    for topic, facts in manifest.topics.items():
        span = sum(each.span for each in manifest.ranges if each.topic == topic)
        if rows[topic] < span and not facts.compacted and not result.allow_gaps:
            yield f"{rows[topic]} records for {span} offsets of {topic}, {_cause(result)}"


def _cause(result: RunResult) -> str:
    allow = "If producers write to it in transactions, allow gaps (allow_gaps=True)"
    if result.unread is None:
        return (
            "which isn't compacted. Either its log has none at the others, as transactions leave them, or the read was "
            f"stopped early (limit, head, take): Kafka wasn't asked. {allow}; otherwise write every record once"
        )
    return (
        "which isn't compacted, and all that was read was written: its log has none at the others, as transactions "
        f"leave them. {allow}"
    )
