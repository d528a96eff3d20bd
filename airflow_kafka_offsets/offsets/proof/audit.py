"""The audit: counts of what a run read and wrote, and the verdict against the manifest, with causes and remedies.

What was written is counted per partition, in one scan of three columns. If every offset has a record, that is enough:
the output must hold each offset once. If offsets may lack a record, what is read is also summed up over the whole run,
in the same pass (a Spark ``Observation`` can't group). Equal checksums mean that both are the same set of (topic,
partition, offset), so what holds per partition for one holds for the other.

What Kafka had lost when the attempt began isn't asked of it: read + lost = window, and written = read.

There are three reasons for fewer rows than offsets: a transform drops rows, which the count of rows read shows; a read
is stopped early, which the count doesn't show but Kafka does; or the log has no record at some offsets. Only the last
is fine, if the topic or the user allows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, by_partition, span_of
from airflow_kafka_offsets.offsets.proof.checksum import offset_sum
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult, Tally, counted_twice, total_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of, topics_read, unknowable
from airflow_kafka_offsets.offsets.windows.topic_identity import Source, identity_problems


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run is proved.

    :param read_problems: how the rows read don't fit the manifest.
    :param written_problems: how the rows written differ from the rows read.
    :param gaps: offsets that were read and have no record: transaction markers, aborted or compacted records. A plain
        topic can't have any.
    :param unknowable: what Kafka couldn't say about the source of the rows, in words; brokers from 2.8 on can.
    :param may_pass: the only problem is one that another attempt may not have: rows that were counted more than once.
    :param derived: what a job has made of the records, in words; empty when each record is a row.
    :param lost: offsets of the window that Kafka no longer had when the attempt began.
    """

    read_problems: tuple[str, ...]
    written_problems: tuple[str, ...]
    gaps: int
    unknowable: tuple[str, ...] = ()
    may_pass: bool = False
    derived: str = ""
    lost: int = 0

    @property
    def proved(self) -> bool:
        """Nothing lost, nothing doubled."""
        return not self.read_problems and not self.written_problems

    def __str__(self) -> str:
        if not self.proved:
            return shorten(self.read_problems + self.written_problems)
        lost = f", {self.lost} offsets lost before" if self.lost else ""
        gaps = f", {self.gaps} offsets without a record" if self.gaps else ""
        unknown = f", but Kafka doesn't tell {shorten(self.unknowable)}" if self.unknowable else ""
        equal = f"read = log ({self.derived})" if self.derived else "read = written = log"
        return equal + lost + gaps + unknown


def judge(manifest: Manifest, result: RunResult, lost: Collection[LogRange] = ()) -> Verdict:
    """Compare a run with its manifest. Offsets without a record are accepted if the run or the topic allows them.

    :param lost: what Kafka no longer had of the window when the attempt began: its rows must be those of the rest.
    """
    left = left_of(manifest, lost)
    span = span_of(left)
    ranges, written = by_partition(left), by_partition(result.written)
    problems = [f"no offset of {each} is to be read" for each in sorted(written.keys() - ranges.keys())]
    if len(written) < len(result.written):
        problems.append("a partition's rows are counted twice")
    judged = [_judge_partition(each, written[key]) for key, each in ranges.items() if key in written]
    problems.extend(problem for problem in judged if problem)
    if manifest.sha256 != result.manifest_sha256:
        problems.append(f"the run used another manifest ({result.manifest_sha256})")
    if left:
        problems.extend(_source_problems(manifest, result.source))
    written_rows, unread = total_of(result.written), bool(result.unread)
    different = list(difference(result.read, written_rows, span, result.task_starts, unread=unread))
    different.extend(_job_problems(result))
    may_pass = not problems and not unread and _may_be_repeated(result)
    if not different:
        problems.extend(_shortfall(manifest, left, result))
    return Verdict(
        tuple(problems),
        tuple(different),
        gaps=max(0, span - result.read.count),
        unknowable=tuple(unknowable(manifest)),
        may_pass=may_pass,
        derived=_derived_words(result),
        lost=manifest.span - span,
    )


def _source_problems(manifest: Manifest, source: Source | None) -> Iterator[str]:
    if source is None:
        yield "nobody asked Kafka after the read whether the topics were still the ones that had been resolved"
    else:
        yield from identity_problems(manifest, topics_read(manifest), source.cluster_id, source.topic_ids)


def _judge_partition(whole: LogRange, tally: PartitionTally) -> str | None:
    """What is wrong with one partition's rows, if anything: they are outside its range, or there are too many."""
    name, start, end = TopicPartition.of(tally), whole.start_offset, whole.end_offset
    if tally.min_offset < start or tally.max_offset >= end:
        return f"{name} holds offsets {tally.min_offset} to {tally.max_offset}, outside [{start}, {end})"
    between = whole._replace(start_offset=tally.min_offset, end_offset=tally.max_offset + 1)
    if tally.count > between.span:
        return f"{name} holds {tally.count} rows for {between.span} offsets"
    if tally.count == between.span and tally.offset_sum != offset_sum(between):
        return f"{name} holds the right number of rows, but not each offset once"
    return None


KEEP_EVERY_RECORD = (
    "Write every record once: instead of dropping rows, flag them in a column and filter when you read, with "
    "read_published(...).where(...); or write other rows than the records with write_derived(...)"
)
"""What to do about anything that drops or doubles rows."""
_MAY_LACK = (
    "Rows may have been dropped between read() and write() (a filter, a join, dropDuplicates), or the read stopped "
    "early (limit, head, take); or the output doesn't show all that was written (a sink that drops rows, files that "
    "were deleted since, a conf or a table property that sends reads or writes elsewhere)"
)
"""Why an output may lack rows: from the counts alone, nobody can tell which of these it is."""
_CHANGED = (
    "topic, partition or offset was changed between read() and write(), or some rows were dropped and as many doubled. "
    "Leave these three columns as they are"
)


def difference(read: Tally, written: Tally, span: int, task_starts: int | None, *, unread: bool) -> Iterator[str]:
    """Why the rows written aren't the rows read; empty when they are.

    :param span: offsets that are left of the window.
    :param task_starts: as in :class:`~airflow_kafka_offsets.offsets.proof.run_result.RunResult`.
    :param unread: whether Kafka has records that aren't in the output: if so, they were dropped, whatever was counted.
    """
    if not read.counted:
        if read.count != span:
            yield (
                f"the rows read weren't counted, but the result says {read.count} rows for {span} offsets: its file "
                "was changed. Load the window again"
            )
        elif read.count == written.count and not read.same_rows(written):
            yield (f"wrote {written.count} rows, as many as there are offsets, but not each of them once: {_CHANGED}")
        return
    counts = f"read {read.count} rows, wrote {written.count}"
    # Whether each task started several times: no other sum of hashes is a multiple.
    is_multiple = read.starts and task_starts and read.starts != task_starts and read.starts % task_starts == 0
    if read.count > span or is_multiple:
        yield (
            f"{counts}, of {span} offsets: some were read more than once, because of a sort, a repartitionByRange or "
            "a lost executor, so the count proves nothing. Sort within partitions "
            "(sortWithinPartitions), or run the task again if an executor was lost"
        )
    elif written.count < read.count:
        read_anew = "; or records were read again because an executor was lost: then run the task again"
        yield (
            f"{counts}: the output lacks {read.count - written.count} of them. {_MAY_LACK}. "
            f"{KEEP_EVERY_RECORD}{read_anew if not unread and counted_twice(read, task_starts) else ''}"
        )
    elif written.count > read.count:
        yield (
            f"{counts}: rows were doubled between read() and write(), by explode, a join that matches several, or a "
            "union; or another action (count(), show(), take()) ran on the rows before write(), and is the one that "
            f"was counted. {KEEP_EVERY_RECORD}, with write() as the only action"
        )
    elif not read.same_rows(written):
        yield f"read and wrote {read.count} rows each, but not the same ones: {_CHANGED}"


def _shortfall(manifest: Manifest, left: Sequence[LogRange], result: RunResult) -> Iterator[str]:
    """Why there aren't as many rows as offsets, although the rows read were written, or weren't counted. Empty when
    that is allowed and Kafka was asked."""
    span = span_of(left)
    if not result.read.counted:
        yield from _not_once(left, result)
        return
    if result.records >= span:
        return
    if result.unread:
        yield (
            f"Kafka has records of the window that were not read, such as {shorten(map(str, result.unread))}: the read "
            "was stopped early, by limit, head, take, a join with an empty side, or a function that stops iterating "
            f"between read() and write(). {KEEP_EVERY_RECORD}"
        )
        return
    forbidden = list(_gaps_not_allowed(manifest, left, result))
    if result.unread is None:
        yield (
            f"{result.records} rows for {span} offsets, and Kafka wasn't asked whether the others have records that "
            "were not read. Load the window again"
        )
    elif forbidden:
        yield from forbidden
    elif result.task_starts != result.read.starts:
        yield (
            "Spark's tasks started with records other than those written, so some were read more than once, "
            "because of a sort, a repartitionByRange or a lost executor; or Spark split the "
            "window differently from what plan() says. Run the task again if an executor was lost; "
            "otherwise sort within partitions (sortWithinPartitions), or read(minPartitions='1')"
        )


def _not_once(left: Iterable[LogRange], result: RunResult) -> Iterator[str]:
    """Partitions with too few or too many rows, when every offset must have one."""
    rows = {TopicPartition.of(tally): tally.count for tally in result.written}
    more = {key: (rows.get(key, 0) - each.span, each.span) for key, each in by_partition(left).items()}
    lacking = [f"{name} lacks {-count} of {span} rows" for name, (count, span) in more.items() if count < 0]
    doubled = [f"{name} has {count} more rows than offsets" for name, (count, _) in more.items() if count > 0]
    if lacking:
        yield (
            f"{shorten(lacking)}. The log may have no record there, as is usual with transactions: then allow gaps "
            f"(allow_gaps=True). Or: {_MAY_LACK[0].lower()}{_MAY_LACK[1:]}. {KEEP_EVERY_RECORD}"
        )
    if doubled:
        yield (
            f"{shorten(doubled)}: rows were doubled between read() and write(), by explode, a join that matches "
            f"several, or a union. {KEEP_EVERY_RECORD}"
        )


def _gaps_not_allowed(manifest: Manifest, left: Iterable[LogRange], result: RunResult) -> Iterator[str]:
    """Topics with fewer rows than offsets that aren't compacted, when gaps weren't allowed."""
    rows, spans = Counter[str](), Counter[str]()
    for tally in result.written:
        rows[tally.topic] += tally.count
    for each in left:
        spans[each.topic] += each.span
    for topic, facts in manifest.topics.items():
        if rows[topic] < spans[topic] and not facts.compacted and not result.allow_gaps:
            yield (
                f"{rows[topic]} records for {spans[topic]} offsets of {topic}, which isn't compacted, and all that was "
                "read was written: its log has no record at the other offsets, as is usual with transactions. If "
                "producers write to it in transactions, allow gaps (allow_gaps=True)"
            )


def _derived_words(result: RunResult) -> str:
    """What a job has written; empty when each record is a row."""
    if not result.derived:
        return ""
    further = "".join(f", {output.rows} to {output.name}" for output in result.outputs[1:])
    return f"{result.rows_written} rows written by your job{further}"


def _job_problems(result: RunResult) -> Iterator[str]:
    """Outputs that don't hold the rows that a job made."""
    for output in result.derived:
        if output.made != output.rows:
            yield (
                f"the job made {output.made} rows for {output.output}, but it holds {output.rows}: the sink dropped or "
                "doubled some, or the rows were made more than once because an executor was lost. If one was "
                "lost, run the task again"
            )


def _may_be_repeated(result: RunResult) -> bool:
    """Whether some records or rows may have been counted more than once, so that a retry may succeed."""
    made_again = any(output.made is not None and output.made > output.rows for output in result.derived)
    return made_again or counted_twice(result.read, result.task_starts)
