"""What a driver counts whose rows are made up.

Programs in Spark's place import this module. It needs neither Airflow nor a client of Kafka, and so they start at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import xor
from typing import Any

from airflow_kafka_offsets.ledger.entries import Attempted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult, Tally
from airflow_kafka_offsets.offsets.windows.manifest import left_of
from tests.unit.offsets.proof.results import run_result, tally_of

FILES = ("part-00000.parquet", "part-00001.parquet")
"""What an attempt has written."""
RUN = "0000000a"
"""The driver of an attempt."""


def result_of(ledger: Ledger, window: Window, attempt: Attempted, **fields: Any) -> RunResult:
    """What a driver of an attempt has counted: each offset once that wasn't lost."""
    manifest = ledger.pinned(window).manifest
    rest = left_of(manifest, attempt.lost)
    written = fields.pop("written", [_tally(records) for records in rest])
    read = Tally(sum(tally.count for tally in written), reduce(xor, (tally.checksum for tally in written), 0))
    usual = {"attempt": attempt.number, "run": RUN, "output": f"file:///out/{window.name}", "read": read}
    return run_result(manifest, written, **usual | {"files": FILES} | fields)


def _tally(records: LogRange) -> PartitionTally:
    found = tally_of(records.topic, records.partition, range(records.start_offset, records.end_offset))
    return replace(found, checksum=records.start_offset)
