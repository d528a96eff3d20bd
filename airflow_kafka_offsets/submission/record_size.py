"""How large a record of a window is, for the split plan, which only decides how many tasks read it."""

from __future__ import annotations

import logging
from itertools import islice

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session.conf import BYTES_PER_RECORD

log = logging.getLogger(__name__)

_EARLIER_WINDOWS = 3
"""How many published windows are searched: a compacted or transactional one may have had no records."""


def record_size_conf(hook: KafkaOffsetsHook, ledger: Ledger, manifest: Manifest) -> dict[str, str]:
    """The conf with the average size of a record: from earlier windows, else from the log's size on disk; empty if
    unknown."""
    if not manifest.span:
        return {}
    try:
        size_bytes = _loaded_size(ledger, manifest)
        if size_bytes is None:
            with hook.get_conn() as client:
                size_bytes = _stored_size(client, manifest)
    except Exception as error:  # of any kind: a load must not fail for lack of a plan
        log.info("The size of a record is unknown, so the split plan uses its default: %r", error)
        return {}
    return {} if size_bytes is None else {BYTES_PER_RECORD: f"{size_bytes:.1f}"}


def _loaded_size(ledger: Ledger, manifest: Manifest) -> float | None:
    """Average size of key and value in the last windows up to this one; None if none of them has it. A backfill's
    windows resemble their neighbours, not the newest windows."""
    start_ms, _ = window_extent(manifest.window)
    before = (
        (window.name, window.publication)
        for window in reversed(ledger.state.windows.values())
        if window.start_ms <= start_ms and window.offsets and window.publication is not None
    )
    for name, publication in islice(before, _EARLIER_WINDOWS):
        size_bytes = ledger.published_result(name, publication).read.bytes_per_record
        if size_bytes:
            return size_bytes
    return None


def _stored_size(client: OffsetsClient, manifest: Manifest) -> float | None:
    """Average bytes per offset in the logs of the window's partitions, as stored on the leaders' disks (compressed)."""
    partitions = list(map(TopicPartition.of, manifest.non_empty()))
    sizes, extents = client.log_sizes(partitions), client.log_extents(partitions)
    failures = [*sizes.failures(), *extents.failures()]
    if failures:
        why = shorten(f"{name}: {error}" for name, error in failures)
        log.info("The size of a record is unknown for %s partitions: %s", len(failures), why)
    size_bytes, offsets, known = 0, 0, extents.ok()
    for size in sizes.ok():
        extent = known.lookup(size.topic, size.partition)
        if extent is None or size.size_bytes is None:
            continue
        if extent.high_watermark is not None and extent.log_start_offset is not None:
            size_bytes += size.size_bytes
            offsets += extent.high_watermark - extent.log_start_offset
    return size_bytes / offsets if size_bytes and offsets else None
