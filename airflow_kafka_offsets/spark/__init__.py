"""All that a driver's program needs: the pinned read, the proved write, the sinks, published rows, and the error that
everything here raises. Also a ready-made load application, :mod:`.load`.

Imports only pyspark, the standard library, ``airflow_kafka_offsets.{compat,errors,offsets}``, and what of ``ledger``
imports nothing else, because it ships as a small zip::

    from airflow_kafka_offsets.spark import FileSink, KafkaOffsetsError, pinned_window, read_published

The names are imported lazily, so that Airflow can import the conf names without importing pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_kafka_offsets.public import offered

if TYPE_CHECKING:
    from airflow_kafka_offsets.errors import KafkaOffsetsError as KafkaOffsetsError
    from airflow_kafka_offsets.offsets.proof.run_result import RunResult as RunResult
    from airflow_kafka_offsets.offsets.proof.split_plan import SplitPlan as SplitPlan
    from airflow_kafka_offsets.spark.pinned import PinnedWindow as PinnedWindow, pinned_window as pinned_window
    from airflow_kafka_offsets.spark.published import read_published as read_published
    from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink as DeltaSink
    from airflow_kafka_offsets.spark.sinks.file_sink import FileSink as FileSink
    from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink as IcebergSink
    from airflow_kafka_offsets.spark.sinks.sink import Attempt as Attempt, Sink as Sink
    from airflow_kafka_offsets.spark.values.formats import ValueFormat as ValueFormat
    from airflow_kafka_offsets.spark.window.derived import Derived as Derived
    from airflow_kafka_offsets.spark.windows import load_windows as load_windows, pinned_windows as pinned_windows

__getattr__, __all__ = offered("airflow_kafka_offsets.spark")
