"""The batch: the windows that one Spark application loads, in order of time, as a small file in a ledger.

It names manifests and attempts, never offsets, so a thousand windows are some hundred kilobytes; confs name the file
and its hash. An application of one window needs no such file: its confs name the manifest itself.

Imports nothing from pyspark: Airflow's side writes the file, and the driver reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.windows.manifest import digest

FORMAT = 1


class BatchWindow(NamedTuple):
    """A window of a batch. The fields are those of :class:`.conf.RunConf`."""

    manifest_uri: str
    sha256: str
    attempt: int | None
    commit: int
    bytes_per_record: float | None = None


def batch_to_bytes(windows: Sequence[BatchWindow]) -> bytes:
    """The file's content."""
    return json.dumps({"format": FORMAT, "windows": windows}, separators=(",", ":"), ensure_ascii=False).encode()


def batch_from_bytes(content: bytes | None, sha256: str, uri: str) -> list[BatchWindow]:
    """The windows that a file names.

    :param content: None when there is no file.
    :param sha256: the hash that the content must have.
    :param uri: where it is, for messages.
    :raises LedgerCorruptError: when there is none, or it is another one.
    """
    if content is None:
        raise LedgerCorruptError(f"There is no batch at {uri}: submit the load again.")
    if digest(content) != sha256:
        raise LedgerCorruptError(f"The batch at {uri} was changed: its sha256 is {digest(content)}, expected {sha256}.")
    fields = json.loads(content)
    if fields["format"] != FORMAT:
        raise LedgerCorruptError(f"The batch at {uri} has format {fields['format']!r}; this version reads {FORMAT}.")
    return [BatchWindow(*each) for each in fields["windows"]]
