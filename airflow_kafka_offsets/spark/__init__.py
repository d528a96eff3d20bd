"""All that a driver's program needs: the pinned read, the proved write, the sinks, published rows, and the error that
everything here raises. Also a ready-made load application, :mod:`.load`.

Imports only pyspark, the standard library, ``airflow_kafka_offsets.{compat,errors,offsets}``, and what of ``ledger``
imports nothing else, because it ships as a small zip::

    from airflow_kafka_offsets.spark import FileSink, KafkaOffsetsError, pinned_window, read_published

The names are imported lazily, so that Airflow can import the conf names without importing pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.errors import KafkaOffsetsError
    from airflow_kafka_offsets.offsets.proof.run_result import RunResult
    from airflow_kafka_offsets.offsets.proof.split_plan import SplitPlan
    from airflow_kafka_offsets.spark.decoding import decode_json, decode_text
    from airflow_kafka_offsets.spark.pinned import PinnedWindow, pinned_window
    from airflow_kafka_offsets.spark.published import read_published
    from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
    from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
    from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
    from airflow_kafka_offsets.spark.sinks.sink import Attempt, Sink
    from airflow_kafka_offsets.spark.window.derived import Derived

_MODULES = {
    "Attempt": "spark.sinks.sink",
    "DeltaSink": "spark.sinks.delta_sink",
    "Derived": "spark.window.derived",
    "FileSink": "spark.sinks.file_sink",
    "IcebergSink": "spark.sinks.iceberg_sink",
    "KafkaOffsetsError": "errors",
    "PinnedWindow": "spark.pinned",
    "RunResult": "offsets.proof.run_result",
    "Sink": "spark.sinks.sink",
    "SplitPlan": "offsets.proof.split_plan",
    "decode_json": "spark.decoding",
    "decode_text": "spark.decoding",
    "pinned_window": "spark.pinned",
    "read_published": "spark.published",
}

__all__ = [
    "Attempt",
    "DeltaSink",
    "Derived",
    "FileSink",
    "IcebergSink",
    "KafkaOffsetsError",
    "PinnedWindow",
    "RunResult",
    "Sink",
    "SplitPlan",
    "decode_json",
    "decode_text",
    "pinned_window",
    "read_published",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"airflow_kafka_offsets.{_MODULES[name]}"), name)
