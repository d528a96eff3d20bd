"""Publications as the driver finds them: which attempt of a window counts. Airflow's side alone creates them."""

from __future__ import annotations

from collections.abc import Collection

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.proof.publication import (
    PUBLICATIONS,
    Publication,
    counting,
    publication_file,
    publication_numbers,
)
from airflow_kafka_offsets.offsets.windows.ledger_names import live_revisions, revision_folder
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.files.connect_files import LedgerFiles


def counting_publication(files: LedgerFiles, month: str, window: str, live: Collection[int]) -> Publication | None:
    """The publication of a window that counts; None when nothing is published.

    :param month: the folder of the window's month.
    :param live: numbers of the revisions that count.
    :raises LedgerCorruptError: when a file isn't what it should be.
    """
    folder = f"{month}/{revision_folder(window, 1)}/{PUBLICATIONS}"
    newest_first = reversed(publication_numbers(files.names(folder)))
    found = (counting([_publication(files, f"{folder}/{publication_file(each)}")], live) for each in newest_first)
    return next((each for each in found if each is not None), None)


def standing_publication(files: LedgerFiles, folder: str, manifest: Manifest) -> Publication | None:
    """The same of the window that a manifest is of, whichever revision that is.

    :param folder: the manifest's.
    """
    month = folder.rpartition("/")[0]
    live = live_revisions(files.names(month)).get(manifest.window, ())
    return counting_publication(files, month, manifest.window, live)


def _publication(files: LedgerFiles, uri: str) -> Publication:
    content = files.read(uri)
    if content is None:
        raise LedgerCorruptError(f"The publication {uri} vanished as it was read: nobody deletes one. Restore it.")
    return Publication.from_bytes(content)
