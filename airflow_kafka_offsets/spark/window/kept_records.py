"""Kept records: each record of a window stays a row, so that the output proves the read.

If each topic has an output of its own, each gets the rows of its topic, and all outputs together prove the read. A row
in another topic's output counts as a record that the window doesn't have.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, reduce

from pyspark.sql import DataFrame, functions as F

from airflow_kafka_offsets.compat.spark_versions import drop_kept, kept_on_disk
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows, RunResult
from airflow_kafka_offsets.offsets.windows.kafka_source import topics_read
from airflow_kafka_offsets.spark.session.session import side_by_side
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import AUDITED, OWN_COLUMNS, Attempt, Sink, rows_of
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.counts import count_run, refuse_uncountable
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.window.proved_write import (
    columns_with,
    files_of_output,
    for_outputs,
    load,
    placed,
    run_result,
    source_of,
)


def write_records(window: PinnedRead, rows: DataFrame, sink: Sink) -> RunResult:
    """See :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.write`."""
    outputs = placed(window, sink)
    _check_columns(rows)
    refuse_uncountable(window, rows)
    return load(window, outputs, partial(_write, window, rows, outputs))


def _check_columns(rows: DataFrame) -> None:
    kinds = dict(rows.dtypes)
    wrong = [f"{name} {kind}" for name, kind in AUDITED.items() if kinds.get(name) != kind]
    if wrong:
        raise ConfigurationError(
            f"The rows to write must keep the columns {', '.join(wrong)}: the audit counts by them."
        )
    found = sorted(OWN_COLUMNS & {name.lower() for name in kinds})
    if found:
        raise ConfigurationError(f"The rows to write have a column {found[0]}: that name is reserved for the output.")


def _write(window: PinnedRead, rows: DataFrame, outputs: Mapping[str, Sink], attempt: Attempt) -> RunResult:
    """Write, count what was read and written, and ask Kafka whether the rows came from the window's own topics."""
    started, spark = time.monotonic(), window.spark
    attempts, idle = for_outputs(window, attempt, outputs), _idle(window, outputs)
    used = {name: sink for name, sink in outputs.items() if name not in idle}
    columns = columns_with(window, {name: (sink, rows) for name, sink in used.items()})
    with _by_output(window, rows, attempts) as parts, window.reading():
        writes = {name: partial(sink.replace, parts[name], attempts[name]) for name, sink in used.items()}
        places = side_by_side(spark, writes)
    looks = {name: partial(rows_of, sink, spark, attempts[name], places[name]) for name, sink in used.items()}
    held = side_by_side(spark, looks)
    largest = max(used, key=lambda name: attempts[name].offsets)
    sample = held[largest] if isinstance(outputs[largest], FileSink | TableSink) else None
    counted = partial(count_run, window, rows, _together(held), sample=sample)
    if window.may_have_gaps:  # ask about gaps first: the topic check that follows then covers that answer too
        counts, source = counted(), source_of(window)
    else:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(source_of, window)
            counts, source = counted(), asked.result()
    written = tuple(
        OutputRows(
            name=name,
            output=places.get(name),
            sink=sink.kind,
            apart=sink.keeps_attempts_apart,
            rows=sum(tally.count for tally in counts.written if name in ("", tally.topic)),
            files=files_of_output(sink, held[name], places[name]) if name in used else (),
            columns=columns.get(name),
        )
        for name, sink in outputs.items()
    )
    return run_result(window, attempt, counts, started, outputs=written, source=source)


def _idle(window: PinnedRead, outputs: Mapping[str, Sink]) -> Set[str]:
    """The outputs of topics that have no offsets in the window. No attempt at it has ever written rows there, so there
    are none to take away; unless another window had its name."""
    topics = topics_read(window.manifest)
    if "" in outputs or not topics or (window.ledger is not None and window.ledger.has_rows_left()):
        return frozenset()
    return outputs.keys() - topics


@contextmanager
def _by_output(window: PinnedRead, rows: DataFrame, attempts: Mapping[str, Attempt]) -> Iterator[dict[str, DataFrame]]:
    """The rows of each output. If several wouldn't read their own topics alone, Kafka is read once, to the executors'
    disks, for as long as the block runs."""
    if "" in attempts:
        yield {"": rows}
        return
    kept = None
    if window.span and window.has_driver and not window.is_by_topic and len(attempts) > 1:
        with window.reading():
            kept = rows = kept_on_disk(rows)
    try:
        yield {
            topic: rows.where(F.col("topic") == topic) if attempt.offsets else rows.limit(0)
            for topic, attempt in attempts.items()
        }
    finally:
        if kept is not None:
            drop_kept(kept)


def _together(held: Mapping[str, DataFrame]) -> DataFrame:
    """What all outputs hold. A row in another topic's output has a topic of its own, which is in no window."""
    if "" in held:
        return held[""]
    return reduce(DataFrame.unionAll, (_of_topic(topic, rows) for topic, rows in held.items()))


def _of_topic(topic: str, rows: DataFrame) -> DataFrame:
    own = F.col("topic")
    misplaced = F.concat(F.coalesce(own, F.lit("no topic")), F.lit(f" in the output of {topic}"))
    return rows.select(F.when(own == topic, own).otherwise(misplaced).alias("topic"), "partition", "offset")
