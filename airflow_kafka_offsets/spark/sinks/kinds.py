"""The package's own sinks by kind, as the ledger and the ready-made load's ``--sink`` name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
from airflow_kafka_offsets.spark.sinks.file_sink import FILE_FORMATS, FileSink
from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
from airflow_kafka_offsets.spark.sinks.sink import Sink
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink

_TABLES: Mapping[str, type[DeltaSink | IcebergSink]] = {sink.kind: sink for sink in (DeltaSink, IcebergSink)}
SINKS: Mapping[str, Callable[[str], Sink]] = {
    **{kind: partial(FileSink, file_format=kind) for kind in FILE_FORMATS},
    **_TABLES,
}
"""Each is made from its output: a folder, or a table's path or name."""


def table_of(kind: str, output: str | None) -> TableSink:
    """The table that a sink of this kind wrote to.

    :raises LedgerError: when the sink is the user's own.
    """
    if kind not in _TABLES:
        raise LedgerError(f"The rows are in {output}, which the sink {kind} wrote: read them the way that sink does.")
    return _TABLES[kind](str(output))
