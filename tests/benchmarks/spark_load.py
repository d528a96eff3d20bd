"""Loading with Spark: reads, writes (Parquet) and proves a window, compared with what people use without this package:
a batch read and write with Spark's connector, as it comes and as an expert sets it up, and a stream that ends at the
topic's end (``Trigger.AvailableNow``)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of
from airflow_kafka_offsets.spark.kafka.reader import FAST, OLDER_SOURCES, exactly
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.records import RECORD_BYTES
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import EVEN, even, session, stock
from tests.benchmarks.timing import medians
from tests.unit.spark import ledgers

_TABLE = "table"


def spark_load(clusters: Clusters) -> Iterator[Row]:
    """Each side in turn, into a new folder; ours also into a new ledger."""
    manifest = even(clusters)
    address = clusters.records.bootstrap_servers
    folder = Path(tempfile.mkdtemp())
    works = {
        "ours": lambda: _ours(folder / "ours", manifest, address),
        "expert": lambda: expert(folder / "expert", manifest, address),
        "batch": lambda: stock(address, EVEN, **FAST).write.parquet(_table(folder / "batch")),
        "stream": lambda: available_now(folder / "stream", address),
        "fast-stream": lambda: available_now(folder / "fast-stream", address, **FAST),
    }
    clusters.say("loading them")
    try:
        taken = medians(works, clusters.sizes.rounds, lambda name: _clear(folder / name))
        _require_all(folder, manifest.span)
    finally:
        shutil.rmtree(folder)
    work = f"read, write as Parquet and prove {manifest.span:,} records of {RECORD_BYTES} bytes, 8 partitions"
    peer = "a batch of the same offsets, same fetch settings, newer source, no statistics of values: no proof"
    yield Row.compared(work, taken["ours"], peer, taken["expert"], limit=1.1)
    peer = "Spark's connector in a batch, same fetch settings"
    yield Row.compared("…", taken["ours"], peer, taken["batch"], limit=1.08)
    yield Row.compared("…", taken["ours"], "Trigger.AvailableNow, its defaults", taken["stream"], limit=0.6)
    peer = "Trigger.AvailableNow, same fetch settings"
    yield Row.compared("…", taken["ours"], peer, taken["fast-stream"], limit=None)


def _clear(folder: Path) -> None:
    """Remove a side's output, and flush the previous side's: a gigabyte that the system would otherwise write while the
    next one works."""
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()


def load(window: PinnedWindow, folder: Path, files: int | None = None) -> int:
    """Load a window as an application does. Returns how many rows it wrote, which are proved.

    :param folder: the folder for the table.
    :param files: the number of files; None for as many as Spark makes.
    """
    rows = window.read() if files is None else window.read().coalesce(files)
    return window.write(rows, FileSink(_table(folder))).rows_written


def expert(folder: Path, manifest: Manifest, address: str) -> None:
    """What an expert writes by hand: all that makes our read and write fast, without notes and without a proof."""
    older = session().conf.get(OLDER_SOURCES)
    session().conf.set(OLDER_SOURCES, ",".join(each for each in str(older).split(",") if each != "kafka"))
    try:
        named = {"kafka.bootstrap.servers": address, "failOnDataLoss": "true", **FAST, **exactly(left_of(manifest))}
        rows = session().read.format("kafka").options(**named).load()
        rows.write.option("parquet.column.statistics.enabled#value", "false").parquet(_table(folder))
    finally:
        session().conf.set(OLDER_SOURCES, str(older))


def available_now(folder: Path, address: str, **options: str) -> None:
    """Structured Streaming of all of a topic's records into Parquet, with a checkpoint."""
    named = {"kafka.bootstrap.servers": address, "subscribe": EVEN, "startingOffsets": "earliest", **options}
    rows = session().readStream.format("kafka").options(**named).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", (folder / "checkpoint").as_uri())
    writer.trigger(availableNow=True).start(_table(folder)).awaitTermination()


def _ours(folder: Path, manifest: Manifest, address: str) -> None:
    ledger, kafka = ledgers.ledger_in(folder / "ledger"), {"kafka.bootstrap.servers": address}
    window = ledgers.pin(ledger, manifest)
    pinned, attempt = ledger.pinned(window), ledgers.begin(ledger, window)
    told = RunConf(pinned.uri, pinned.sha256, attempt, kafka, bytes_per_record=RECORD_BYTES)
    load(PinnedWindow.open(session(), told), folder)


def _table(folder: Path) -> str:
    return (folder / _TABLE).as_uri()


def _require_all(folder: Path, records: int) -> None:
    """Make sure that all sides have written the same number of rows.

    :raises AssertionError: a side has more rows, or fewer.
    """
    counts = {each.name: session().read.parquet(_table(each)).count() for each in folder.iterdir()}
    if set(counts.values()) != {records}:
        raise AssertionError(f"{records} records were to be written: {counts}")
