"""What the Spark driver runs: the pinned read, the audit, the proved write, and a ready-made load application.

Imports only pyspark, the standard library, ``airflow_kafka_offsets.{compat,errors,offsets}``, and what of ``ledger``
imports nothing else, because it ships as a small zip::

    from airflow_kafka_offsets.spark import FileSink, pinned_window, read_published

The names are imported lazily, so that Airflow can import the conf names without importing pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.decoding import decode_json, decode_text
    from airflow_kafka_offsets.spark.pinned import PinnedWindow, pinned_window
    from airflow_kafka_offsets.spark.published import read_published
    from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
    from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
    from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
    from airflow_kafka_offsets.spark.sinks.sink import Attempt, Sink
    from airflow_kafka_offsets.spark.window.derived import Derived

_MODULES = {
    "Attempt": "sinks.sink",
    "DeltaSink": "sinks.delta_sink",
    "Derived": "window.derived",
    "FileSink": "sinks.file_sink",
    "IcebergSink": "sinks.iceberg_sink",
    "PinnedWindow": "pinned",
    "Sink": "sinks.sink",
    "decode_json": "decoding",
    "decode_text": "decoding",
    "pinned_window": "pinned",
    "read_published": "published",
}

__all__ = [
    "Attempt",
    "DeltaSink",
    "Derived",
    "FileSink",
    "IcebergSink",
    "PinnedWindow",
    "Sink",
    "decode_json",
    "decode_text",
    "pinned_window",
    "read_published",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
