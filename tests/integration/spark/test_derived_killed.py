"""A job that filters and aggregates is killed before its steps, and run again: its tables are what the log says.

``KILLS=all`` kills it before each of them, one run after the other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.ledger.counted import counted as counted_by
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import read_published
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev import ROOT
from tests.integration.ledger.loads import publish_asked
from tests.integration.spark.conftest import Pin
from tests.integration.spark.derived_jobs import expected, rows_of

pytestmark = pytest.mark.nightly("a driver for each step that is killed; airflow/test_s3.py kills one")

LAST = 1_000
"""There aren't so many steps: this run goes through."""
STEPS = count() if os.environ.get("KILLS") == "all" else (0, 2, 4, LAST)


@pytest.mark.timeout(1800)
def test_its_tables_are_those_that_the_log_makes(
    spark: SparkSession,
    pin: Pin,
    manifest: Manifest,
    our_ledger: Ledger,
    ledger_uri: str,
    connector: str,
    table_jars: str,
    tmp_path: Path,
) -> None:
    """S1, S22: SIGKILL, of the driver and its JVM."""
    killed, jars = 0, f"{connector},{table_jars}"
    for step in STEPS:
        told = pin(manifest)
        ended = subprocess.run(
            [sys.executable, "-m", f"{__package__}.killed_derivation", jars, tmp_path, f"{step}", _as_json(told)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        killed += 1
        for output in (None, "too_high"):
            with pytest.raises(LedgerError, match="no published window"):
                read_published(spark, ledger_uri, output=output)
    assert killed >= 3
    assert told.attempt is not None
    (counted,) = counted_by(our_ledger, our_ledger.window(manifest.window), told.attempt)
    publish_asked(counted)
    assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)
    assert read_published(spark, ledger_uri, output="too_high").count() == 24
    held = {name: spark.read.format("delta").load(f"file://{tmp_path}/{name}").count() for name in ("hourly", "high")}
    assert held == {"hourly": 7, "high": 24}, "nothing else lies in the tables"


def _as_json(told: RunConf) -> str:
    return json.dumps(asdict(told))
