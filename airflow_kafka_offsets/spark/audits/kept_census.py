"""The census that the ledger keeps of a window, as a driver reads it."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.files import census_file
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.spark.session.connect import files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_offsets.ledger.state import State


def kept_census(spark: SparkSession, pipeline_uri: str, state: State, manifest: Manifest) -> Census | None:
    """Which offsets of a window have a record, if that was counted; None if it wasn't, or not for this manifest.

    :param pipeline_uri: the pipeline's folder.
    :param state: what its log adds up to.
    :raises LedgerCorruptError: when the file is missing, or was changed.
    """
    window = state.windows.get(manifest.window)
    if window is None or window.census is None or window.manifest != manifest.sha256:
        return None
    name = census_file(window.name, window.census)
    stored = files_of(spark).read(f"{pipeline_uri}/{name}")
    try:
        content = gzip.decompress(stored or b"")
    except (EOFError, OSError, zlib.error):
        content = b""
    if digest(content) != window.census:
        raise LedgerCorruptError(f"{pipeline_uri}/{name} is missing or was changed. Restore the file as it was.")
    return Census.from_bytes(content)
