"""The audit of derived rows: whether each output of a job was made of every record once, and holds all rows made."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_kafka_offsets.offsets.proof.run_result import RunResult, Tally, counted_twice, total_of


def derived_words(result: RunResult) -> str:
    """What a job has written; empty when each record is a row."""
    if not result.derived:
        return ""
    further = "".join(f", {output.rows} to {output.name}" for output in result.outputs[1:])
    return f"{result.rows_written} rows written by your job{further}"


def may_be_repeated(result: RunResult) -> bool:
    """Whether some records or rows may have been counted more than once, so that a retry may succeed."""
    records = total_of(result.written)
    return any(
        _read_again(job.read, records, result.task_starts) or job.made > output.rows for output, job in result.derived
    )


def derived_problems(result: RunResult, span: int) -> Iterator[str]:
    """Why a job's outputs weren't made of each record once, or don't hold the rows made; empty when all is well.

    :param span: offsets that are left of the window.
    """
    records = total_of(result.written)
    for output, job in result.derived:
        yield from _misread(output.name, job.read, records, span, result)
        if job.made != output.rows:
            yield (
                f"the job made {job.made} rows for {output.output}, but it holds {output.rows}: the sink dropped or "
                "doubled some, or the rows were made more than once because an executor was lost. If one was "
                "lost, run the task again"
            )


def _misread(output: str, found: Tally, records: Tally, span: int, result: RunResult) -> Iterator[str]:
    what = f"the rows of output {output}" if output else "the job's rows"
    read = found.count
    if _read_again(found, records, result.task_starts):
        yield (
            f"{what} were made of {read} records, where the window has {records.count}: Spark read some more than "
            "once, for a sort, a repartitionByRange or a join without a condition whose other side isn't broadcast, or "
            "because an executor was lost. If one was lost, run the task again; otherwise sort only what was "
            "aggregated, or broadcast the other side"
        )
    elif read < records.count:
        gaps = ", or, if transactions leave offsets without a record, allow gaps (allow_gaps=True)"
        has = f"{records.count} records" if records.count < span else f"{span} offsets"
        yield (
            f"{what} were made of {read} records, but the window has {has}: the read was stopped early, by limit, "
            "head, take, a join with an empty side, or a function that stops iterating. Let it read every record"
            f"{'' if records.count < span or result.allow_gaps else gaps}"
        )
    elif not found.same_rows(records):
        yield (
            f"{what} were made of {read} records, as many as the window has, but not the same ones: some were read "
            "twice, and as many not at all"
        )


def _read_again(read: Tally, records: Tally, task_starts: int | None) -> bool:
    """Whether some records may have been counted more than once. If fewer were counted, the read was stopped early."""
    as_many = read.count == records.count
    return read.count > records.count or (as_many and counted_twice(read, task_starts))
