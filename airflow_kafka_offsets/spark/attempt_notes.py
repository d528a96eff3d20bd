"""Attempts at a window, as the ledger knows them: a note each in ``applications/``, written before anything is read.

It says which Spark application the attempt is, when it began, whether it writes, and later whether that was refused.
Two attempts that list the notes and write theirs at one moment may miss each other, so that whoever meets an attempt
that isn't among the earlier ones looks again (:attr:`~airflow_kafka_offsets.spark.sink.Attempt.noted`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.offsets.windows.ledger_names import json_object
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.files import LedgerFiles
from airflow_kafka_offsets.spark.ledger import PinnedFolder
from airflow_kafka_offsets.spark.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.sink import Attempt

_ENDING = ".json"
_MOST_RANGES = 4096
"""As long as a text of them may be that a table's commits carry: some two hundred partitions."""


class AttemptNotes:
    """The notes beside one window.

    :param files: the ledger's store.
    :param folder: the window's folder.
    """

    def __init__(self, files: LedgerFiles, folder: str) -> None:
        self._files = files
        self._folder = folder

    def names(self) -> frozenset[str]:
        """Names of the attempts that have begun."""
        found = self._files.names(f"{self._folder}/applications")
        return frozenset(name.removesuffix(_ENDING) for name in found if name.endswith(_ENDING))

    def begin(self, window: PinnedRead) -> Attempt:
        """Note which Spark application this attempt is, and that it is to write. A client of Spark Connect notes
        nothing.

        :raises ConfigurationError: an attempt of this name has begun before.
        """
        notes = {name: self._read(name) for name in self.names()}
        if window.attempt in notes:
            raise ConfigurationError(
                f"{self._uri(window.attempt)} exists: the attempt's name was used before. Every try needs its own; "
                "if the cluster restarts drivers by itself, forbid it (spark.yarn.maxAppAttempts=1)."
            )
        manifest = window.manifest
        folder = PinnedFolder(self._files, self._folder, manifest)
        trusted = {name for name, note in notes.items() if not note.get("refused") and folder.source_is_proved(name)}
        attempt = Attempt(
            name=window.attempt,
            pipeline=manifest.pipeline,
            ledger_id=manifest.ledger_id,
            window=manifest.window,
            revision=manifest.revision,
            manifest_sha256=manifest.sha256,
            # An earlier attempt's clock may be ahead of this one's.
            started_ms=max([now_ms(), *(int(note.get("started_ms", 0)) + 1 for note in notes.values())]),
            offsets=manifest.span,
            strict_time=window.strict_time,
            earlier=frozenset(trusted),
            refused=frozenset(notes.keys() - trusted),
            has_note=self._files.writable,
            manifest_uri=f"{self._folder}/manifest.json",
            ranges=_ranges_text(manifest),
            noted=self._names_now,
        )
        if attempt.has_note:
            context = window.spark.sparkContext
            application = SparkApplication(str(context.applicationId), context.uiWebUrl)
            note = application.to_json(attempt.name, window.note_key)
            self._write(attempt.name, note | {"started_ms": attempt.started_ms, "after": sorted(notes)})
        return attempt

    def writes(self, attempt: str, writes: bool) -> None:
        """Note whether an attempt writes, or counts what was published before."""
        self._write(attempt, self._read(attempt) | {"writes": writes})

    @contextmanager
    def unwritten(self, attempt: str) -> Iterator[None]:
        """Note that an attempt hasn't written, where it ends here: whoever has counted before may be published."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the error itself is what counts
                self.writes(attempt, False)
            raise

    def distrust(self, attempt: str) -> None:
        """Note that what an attempt committed isn't to be taken over: the next one writes anew."""
        self._write(attempt, self._read(attempt) | {"refused": True})

    def writers(self) -> list[str]:
        """Names of the attempts that have begun, and not only to count what was published before."""
        return sorted(name for name in self.names() if self._read(name).get("writes") is not False)

    def _names_now(self) -> frozenset[str]:
        self._files.look_again()
        return self.names()

    def _write(self, attempt: str, note: dict[str, Any]) -> None:
        self._files.write(self._uri(attempt), json.dumps(note).encode())

    def _read(self, attempt: str) -> dict[str, Any]:
        """What an attempt noted when it began; empty where that is half written."""
        return json_object(self._files.read(self._uri(attempt)))

    def _uri(self, attempt: str) -> str:
        return f"{self._folder}/applications/{attempt}{_ENDING}"


def _ranges_text(manifest: Manifest) -> str:
    """The ranges that hold something, as JSON; empty where that is long."""
    found: dict[str, dict[int, list[int]]] = {}
    for pinned in manifest.non_empty():
        found.setdefault(pinned.topic, {})[pinned.partition] = [pinned.start_offset, pinned.end_offset]
    text = json.dumps(found, separators=(",", ":"))
    return text if len(text) <= _MOST_RANGES else ""
