"""Loads by librdkafka: reads offsets as Spark's reader would, writes them to a file or into a table, and counts them
there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError
from airflow_kafka_offsets.ledger.entries import Attempted
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.load_decisions import attempt_of
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows, PartitionTally, RunResult, Tally, total_of
from airflow_kafka_offsets.offsets.windows.manifest import left_of
from airflow_kafka_offsets.pipelines.log_changes import refuse_changed_topics
from tests.chaos import tables
from tests.chaos.plan import TABLES
from tests.chaos.ranges import Key, Offsets, RangeReader

_FILE = "rows.json"


class RangeLoader:
    """Loads windows with one consumer.

    :param client: checks after the read that these were the window's own topics, as a Spark driver does.
    :param output: the folder for the output.
    """

    def __init__(self, bootstrap_servers: str, client: OffsetsClient, output: Path) -> None:
        self._reader = RangeReader(bootstrap_servers)
        self._client = client
        self._output = output

    def close(self) -> None:
        self._reader.close()

    def load(
        self, store: str, ledger: Ledger, pinned: PinnedManifest, attempt: Attempted, meanwhile: Callable[[], None]
    ) -> None:
        """Read and write what an attempt has of a window, and write the counts to the ledger."""
        manifest, apart, run = pinned.manifest, store not in TABLES, token_hex(4)
        _refuse_needless(ledger, manifest.window, attempt.number, apart=apart)
        meanwhile()
        started = time.monotonic()
        offsets = self._reader.read(left_of(manifest, attempt.lost), str(manifest.isolation_level))
        folder = self._output / store / manifest.window
        if apart:
            output = folder / f"{attempt.number}-{run}"
            output.mkdir(parents=True)
            (output / _FILE).write_text(json.dumps(_to_json(offsets)))
        else:
            output = folder.with_suffix(".json")
            tables.replace(output, attempt.number, _to_json(offsets))
        read, written = _tallies(offsets), _tallies(published_offsets(output.as_uri()))
        whole = total_of(read)
        result = RunResult(
            attempt=attempt.number,
            run=run,
            manifest_sha256=pinned.sha256,
            application_id=None,
            outputs=(
                OutputRows(
                    "",
                    output.as_uri(),
                    "files" if apart else "table",
                    apart=apart,
                    rows=sum(each.count for each in written),
                    files=(_FILE,) if apart else (),
                ),
            ),
            read=Tally(whole.count, whole.checksum, starts=_starts(read)),
            written=written,
            seconds=round(time.monotonic() - started, 3),
            allow_gaps=True,  # transactions leave them
            source=refuse_changed_topics(self._client, manifest),
            task_starts=_starts(written),
            unread=(),  # the reader goes on up to the end of each range, or of the log
        )
        ledger.attempt(manifest.window, attempt.number).record_result(result)


def _refuse_needless(ledger: Ledger, name: str, number: int, *, apart: bool) -> None:
    """Refuse an attempt that can't be published any more, as a driver does when it starts."""
    window = ledger.read().windows.get(name)
    if window is None or window.loaded is not None or number <= window.reloaded:
        raise LedgerConflictError(f"Attempt {number} at window {name} reads and writes nothing.")
    attempt_of(window, number)
    if not apart and window.attempts[-1].number > number:
        raise CommitConflictError(f"Attempt {number} at window {name} replaces no rows: a later one has begun.")


def published_offsets(output: str | None) -> Offsets:
    """The offsets in an output."""
    if output is None:
        return {}
    place = Path(urlsplit(output).path)
    return offsets_in(str(place / _FILE)) if place.suffix != ".json" else _from_json(tables.rows_in(place))


def offsets_in(file: str) -> Offsets:
    """The offsets in a file."""
    return _from_json(json.loads(Path(urlsplit(file).path).read_text()))


def _to_json(offsets: Offsets) -> dict[str, list[int]]:
    return {f"{topic}:{partition}": each for (topic, partition), each in offsets.items()}


def _from_json(rows: Mapping[str, list[int]]) -> dict[Key, list[int]]:
    parts = {name: name.rsplit(":", 1) for name in rows}
    return {(topic, int(partition)): rows[name] for name, (topic, partition) in parts.items()}


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
