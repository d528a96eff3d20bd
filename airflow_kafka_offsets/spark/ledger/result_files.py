"""Results: what each attempt read and wrote, a file each in ``results/`` beside the window, proved or not.

An attempt that has one has asked Kafka after its write where its rows came from. Of one that died before, nobody knows:
for as long as it read, another cluster may have been behind the address.
"""

from __future__ import annotations

import json

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, published_counts
from airflow_kafka_offsets.offsets.windows.kafka_source import source_problems
from airflow_kafka_offsets.offsets.windows.ledger_names import revision_folder
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.files.connect_files import LedgerFiles
from airflow_kafka_offsets.spark.files.hadoop import HadoopFiles


def result_uri(folder: str, attempt: str) -> str:
    """Where an attempt's result is.

    :param folder: the window's.
    """
    return f"{folder}/results/{attempt}.json"


def read_result(files: LedgerFiles, folder: str, attempt: str) -> RunResult | None:
    """An attempt's result; None when it hasn't come so far.

    :raises LedgerCorruptError: when the file isn't what it should be.
    """
    content = files.read(result_uri(folder, attempt))
    try:
        return None if content is None else RunResult.from_json(json.loads(content))
    except ValueError as error:
        raise LedgerCorruptError(f"{result_uri(folder, attempt)} is not the result of a run: {error!r}.") from error


def write_result(files: HadoopFiles, folder: str, result: RunResult) -> None:
    """Keep an attempt's result."""
    files.write(result_uri(folder, result.attempt), json.dumps(result.to_json()).encode())


def published_result(files: LedgerFiles, folder: str, published: Publication, window: str) -> RunResult:
    """What a published attempt has counted.

    :param folder: of the window, in any of its revisions.
    :raises LedgerCorruptError: when that is missing, or was changed since.
    """
    place = f"{folder.rpartition('/')[0]}/{revision_folder(window, published.revision)}"
    uri = result_uri(place, published.attempt)
    return published_counts(published, files.read(uri), uri)


def source_is_proved(files: LedgerFiles, folder: str, attempt: str, manifest: Manifest) -> bool:
    """Whether an attempt has found, after its write, that it had read this window's own topics."""
    try:
        result = read_result(files, folder, attempt)
    except LedgerCorruptError:  # half written, by one that died
        return False
    if result is None or result.manifest_sha256 != manifest.sha256:
        return False
    return not any(source_problems(manifest, result.source))
