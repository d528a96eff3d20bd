"""Loads by librdkafka: reads offsets as Spark's reader would, writes them to a file, and counts them there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, KafkaException

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult, Tally, total_of
from airflow_kafka_offsets.pipelines.log_changes import source_now
from tests.chaos.ranges import Key, Offsets, RangeReader

_FILE = "rows.json"


class RangeLoader:
    """Loads windows with one consumer.

    :param client: checks after the read that these were the window's own topics, as a Spark driver does.
    :param ledgers: by store.
    :param output: the folder for the output.
    """

    def __init__(
        self, bootstrap_servers: str, client: OffsetsClient, ledgers: Mapping[str, Ledger], output: Path
    ) -> None:
        self._reader = RangeReader(bootstrap_servers)
        self._client = client
        self._ledgers = ledgers
        self._output = output

    def close(self) -> None:
        self._reader.close()

    def load(self, store: str, pinned: PinnedManifest, attempt: str, meanwhile: Callable[[], None]) -> None:
        """Read and write a window, and write the counts to the ledger."""
        meanwhile()
        started, ledger, manifest = time.monotonic(), self._ledgers[store], pinned.manifest
        offsets = self._reader.read(manifest)
        folder = self._output / store / manifest.window / attempt
        output = folder.as_uri() if manifest.span else None
        if output is not None:
            folder.mkdir(parents=True)
            (folder / _FILE).write_text(json.dumps(_to_json(offsets)))
        read, written = _tallies(offsets), _tallies(published_offsets(output))
        whole = total_of(read)
        result = RunResult(
            attempt=attempt,
            manifest_sha256=pinned.sha256,
            application_id=None,
            output=output,
            sink="chaos",
            apart=True,
            read=Tally(whole.count, whole.checksum, outside_window=None, starts=_starts(read)),
            written=written,
            seconds=round(time.monotonic() - started, 3),
            started_ms=now_ms(),
            allow_gaps=True,  # transactions leave them
            files=(_FILE,) if output else (),
            source=source_now(self._client, ledger, pinned) if manifest.span else None,
            task_starts=_starts(written),
            unread=(),  # the reader goes on up to the end of each range, or of the log
        )
        ledger.window_folders.of(pinned).record_result(result)

    def again(self, _store: str, pinned: PinnedManifest, publication: Publication) -> str:
        """Read a published window again, if its records still exist."""
        try:
            again = self._reader.read(pinned.manifest)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._AUTO_OFFSET_RESET or not self._reader.has_lost(pinned.manifest):
                raise
            return "stands, and can't be read again"
        assert again == published_offsets(publication.output), "another run, other records"
        return "stands, and reads the same again"


def published_offsets(output: str | None) -> Offsets:
    """The offsets that an attempt has written to its folder."""
    return offsets_in([] if output is None else [f"{output}/{_FILE}"])


def offsets_in(files: Sequence[str]) -> Offsets:
    """The offsets in some files."""
    rows: dict[Key, list[int]] = {}
    for each in files:
        for name, offsets in json.loads(Path(urlsplit(each).path).read_text()).items():
            topic, partition = name.rsplit(":", 1)
            rows.setdefault((topic, int(partition)), []).extend(offsets)
    return rows


def _to_json(offsets: Offsets) -> dict[str, list[int]]:
    return {f"{topic}:{partition}": each for (topic, partition), each in offsets.items()}


def _tallies(offsets: Offsets) -> tuple[PartitionTally, ...]:
    return tuple(_tally(*key, found) for key, found in sorted(offsets.items()) if found)


def _tally(topic: str, partition: int, offsets: list[int]) -> PartitionTally:
    checksum = 0
    for each in offsets:
        checksum ^= _hash((topic, partition), each)
    return PartitionTally(topic, partition, len(offsets), min(offsets), max(offsets), sum(offsets), checksum)


def _starts(tallies: tuple[PartitionTally, ...]) -> int:
    """One task reads each partition, in order."""
    return sum(_hash((each.topic, each.partition), each.min_offset) for each in tallies)


def _hash(key: Key, offset: int) -> int:
    return int.from_bytes(sha256(f"{key} {offset}".encode()).digest()[:7])
