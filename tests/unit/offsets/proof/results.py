"""Results of made-up runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from airflow_kafka_offsets.offsets.proof.run_result import OutputRows, PartitionTally, RunResult, Tally
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.topic_identity import Source


def source_of(manifest: Manifest) -> Source:
    """What a driver notes that found everything as it was resolved."""
    ids = {topic: facts.topic_id for topic, facts in manifest.topics.items()}
    return Source(manifest.cluster_id, ids, manifest.end_ms)


def run_result(manifest: Manifest | str, written: Sequence[PartitionTally], **fields: Any) -> RunResult:
    """What a driver of attempt 7 read and wrote; by default what it wrote is what it read.

    :param manifest: the manifest that it read, or its hash.
    :param fields: of the result, and of its only output, unless all outputs are given.
    """
    sha256 = manifest if isinstance(manifest, str) else manifest.sha256
    count = sum(each.count for each in written)
    usual: dict[str, Any] = {
        "attempt": 7,
        "run": "0000000a",
        "application_id": "app-1",
        "read": Tally(count),
        "seconds": 1.0,
        "source": None if isinstance(manifest, str) else source_of(manifest),
    }
    output = {"output": "file:/out", "sink": "parquet", "apart": True, "files": ()}
    only = {name: fields.pop(name, value) for name, value in output.items()}
    given = usual | {"outputs": (OutputRows(name="", rows=count, **only),)} | fields
    return RunResult(**given, manifest_sha256=sha256, written=tuple(written))


def tallies(manifest: Manifest) -> tuple[PartitionTally, ...]:
    """Each offset of a window once."""
    return tuple(
        tally_of(each.topic, each.partition, range(each.start_offset, each.end_offset)) for each in manifest.non_empty()
    )


def tally_of(topic: str, partition: int, offsets: Iterable[int]) -> PartitionTally:
    """Some offsets of a partition."""
    listed = list(offsets)
    return PartitionTally(topic, partition, len(listed), min(listed), max(listed), sum(listed), checksum=0)
