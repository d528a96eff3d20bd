"""Kept records: each record of a window stays a row, so that the output proves the read.

If there are several outputs, such as one for each topic, each gets its part of the records, and all outputs together
prove the read: a record in none of them is missing, and one in two is there twice. A row in another topic's output
counts as a record that the window doesn't have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial, reduce

from pyspark.sql import DataFrame, functions as F

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult
from airflow_kafka_offsets.offsets.windows.manifest import topics_read
from airflow_kafka_offsets.spark.session.session import GAPS, require_driver, side_by_side
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import AUDITED, OWN_COLUMNS, Attempt, Sink, rows_of
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.counts import count_run
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.window.proved_write import (
    Done,
    columns_with,
    kept,
    load,
    output_rows,
    placed,
    refuse_one_place,
)


@dataclass(frozen=True, slots=True)
class Part:
    """An output, and which of the records become its rows.

    :param make: makes the rows: one of each record of the part, and none of others.
    :param topic: the only topic whose records it is given; None for those of all.
    """

    sink: Sink
    make: Callable[[DataFrame], DataFrame] = field(default=lambda rows: rows)
    topic: str | None = None


def parts_of(window: PinnedRead, sink: Sink) -> dict[str, Part]:
    """The outputs of a window whose rows go to a sink as they are: one, or one for each topic."""
    return {name: Part(each, topic=name or None) for name, each in placed(window, sink).items()}


def write_records(window: PinnedRead, rows: DataFrame, parts: Mapping[str, Part]) -> RunResult:
    """Write a window's records to their outputs; see :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.write`.

    :param rows: what :meth:`.PinnedRead.read` returned, or rows made from it.
    """
    sinks = {name: part.sink for name, part in parts.items()}
    refuse_one_place(sinks)
    made = _made(window, rows, parts)
    for each in made.values():
        _check_columns(each)
    if window.span and window.may_have_gaps:
        require_driver(window.spark, GAPS)
    return load(window, sinks, partial(_write, window, rows, parts, made))


def _made(window: PinnedRead, rows: DataFrame, parts: Mapping[str, Part]) -> dict[str, DataFrame]:
    """The rows of each output; a topic without records has none."""
    read = {each.topic for each in window.left}

    def own(topic: str) -> DataFrame:
        return rows.where(F.col("topic") == topic) if topic in read else rows.limit(0)

    return {name: part.make(rows if part.topic is None else own(part.topic)) for name, part in parts.items()}


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


def _write(
    window: PinnedRead,
    rows: DataFrame,
    parts: Mapping[str, Part],
    made: Mapping[str, DataFrame],
    attempts: Mapping[str, Attempt],
) -> Done:
    """Write, count what was read and written, and ask Kafka whether the rows came from the window's own topics.

    :param made: the rows of each output, as :func:`_made` makes them.
    """
    spark, idle = window.spark, _idle(window, parts)
    used = {name: part.sink for name, part in parts.items() if name not in idle}
    columns = columns_with(window, {name: (sink, made[name]) for name, sink in used.items()})
    with _read_once(window, rows, parts) as read, window.reading():
        made = made if read is rows else _made(window, read, parts)
        writes = {name: partial(sink.replace, made[name], attempts[name]) for name, sink in used.items()}
        places = side_by_side(spark, writes)
    looks = {name: partial(rows_of, sink, spark, attempts[name], places[name]) for name, sink in used.items()}
    held = side_by_side(spark, looks)
    largest = max(used, key=lambda name: attempts[name].offsets)
    sample = held[largest] if isinstance(used[largest], FileSink | TableSink) else None
    counted = partial(count_run, window, _together(held, parts), sample=sample)
    if window.may_have_gaps:  # ask about gaps first: the topic check that follows then covers that answer too
        counts, source = counted(), window.source(is_read=True)
    else:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(window.source, is_read=True)
            counts, source = counted(), asked.result()
    numbers = _counted(held, parts, counts.written)
    outputs = [
        output_rows(name, part.sink, places.get(name), held.get(name), numbers[name], columns.get(name))
        for name, part in parts.items()
    ]
    return Done(counts, outputs, source)


def _idle(window: PinnedRead, parts: Mapping[str, Part]) -> Set[str]:
    """The outputs of topics that have no offsets in the window. No attempt at it has ever written rows there, so there
    are none to take away; unless another window had its name."""
    topics = topics_read(window.manifest)
    if not topics or (window.ledger is not None and window.ledger.has_rows_left()):
        return frozenset()
    return {name for name, part in parts.items() if part.topic is not None and part.topic not in topics}


def _read_once(window: PinnedRead, rows: DataFrame, parts: Mapping[str, Part]) -> AbstractContextManager[DataFrame]:
    """The rows for all outputs. If several wouldn't read their own topics alone, Kafka is read once."""
    apart = len(parts) == 1 or (window.is_by_topic and all(part.topic for part in parts.values()))
    return nullcontext(rows) if apart or not window.has_driver else kept(window, rows)


def _together(held: Mapping[str, DataFrame], parts: Mapping[str, Part]) -> DataFrame:
    """What all outputs hold. A row in another topic's output has a topic of its own, which is in no window."""
    return reduce(DataFrame.unionAll, (_audited(rows, parts[name].topic) for name, rows in held.items()))


def _audited(rows: DataFrame, topic: str | None) -> DataFrame:
    own = F.col("topic")
    misplaced = F.concat(F.coalesce(own, F.lit("no topic")), F.lit(f" in the output of {topic}"))
    found = own if topic is None else F.when(own == topic, own).otherwise(misplaced).alias("topic")
    return rows.select(found, "partition", "offset")


def _counted(
    held: Mapping[str, DataFrame], parts: Mapping[str, Part], written: Iterable[PartitionTally]
) -> dict[str, int]:
    """How many rows each output holds.

    :param written: what all of them hold.
    """
    topics, found = Counter[str](), dict[str, int]()
    for tally in written:
        topics[tally.topic] += tally.count
    for name in [name for name, part in parts.items() if name and part.topic is None]:
        beside: Counter[str] = Counter(dict(held[name].groupBy("topic").count().collect()))
        found[name] = beside.total()
        topics.subtract(beside)
    return {name: found.get(name, topics[name] if name else topics.total()) for name in parts}
