"""Loads by librdkafka: offsets read as Spark's reader would, and published by the ledger's own functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from upath import UPath

from airflow_kafka_offsets.ledger.storage import create_exclusive
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.publication import COMMITTED, Publication
from tests.chaos.ranges import Offsets, RangeReader


class RangeLoader:
    """Loads windows with one consumer.

    :param path: of a file in a store's ledger.
    :param check: refuses what was read, where it was another topic's: asked after the read, as a Spark driver does.
    :param output: folder of what is published.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        path: Callable[[str, str], UPath],
        check: Callable[[str, PinnedManifest], None],
        output: Path,
    ) -> None:
        self._reader = RangeReader(bootstrap_servers)
        self._path = path
        self._check = check
        self._output = output

    def close(self) -> None:
        self._reader.close()

    def load(self, store: str, pinned: PinnedManifest, attempt: str, meanwhile: Callable[[], None]) -> bool:
        """Publish a window; whether this attempt was the first."""
        meanwhile()
        offsets = self._reader.read(pinned.manifest)
        self._check(store, pinned)
        output = self._output / store / pinned.manifest.window / f"{attempt}.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(_to_json(offsets)))
        rows, snapshots = sum(map(len, offsets.values())), pinned.manifest.snapshots
        ours = Publication(attempt, str(output), pinned.sha256, rows, None, *snapshots)
        return create_exclusive(self._path(store, pinned.uri).parent / COMMITTED, ours.to_bytes())

    def again(self, _store: str, pinned: PinnedManifest, publication: Publication) -> str:
        """Read a published window once more, if it is still there."""
        assert publication.output is not None
        try:
            again = self._reader.read(pinned.manifest)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._AUTO_OFFSET_RESET or not self._reader.has_lost(pinned.manifest):
                raise
            return "stands, and can't be read again"
        assert _to_json(again) == json.loads(Path(publication.output).read_text()), "another run, other records"
        return "stands, and reads the same again"


def published_offsets(publication: Publication) -> Offsets:
    """What is published."""
    assert publication.output is not None
    found = json.loads(Path(publication.output).read_text())
    keys = {each: tuple(each.rsplit(":", 1)) for each in found}
    return {(topic, int(partition)): found[each] for each, (topic, partition) in keys.items()}


def _to_json(offsets: Offsets) -> dict[str, list[int]]:
    return {f"{topic}:{partition}": each for (topic, partition), each in offsets.items()}
