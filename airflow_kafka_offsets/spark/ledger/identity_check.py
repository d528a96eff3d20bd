"""A ledger's identity as the driver finds it: in ``pipeline.json``, beside the windows that it acts on."""

from __future__ import annotations

from airflow_kafka_offsets.errors import LedgerConflictError
from airflow_kafka_offsets.offsets.windows.ledger_names import PIPELINE, LedgerIdentity, json_object, pipeline_folder
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.files.connect_files import LedgerFiles


def ledger_identity(files: LedgerFiles, pipeline_uri: str) -> LedgerIdentity:
    """Which ledger a pipeline's folder is.

    :param pipeline_uri: the folder.
    :raises LedgerCorruptError: when there is no ``pipeline.json`` that says it.
    """
    uri = f"{pipeline_uri}/{PIPELINE}"
    return LedgerIdentity.of_pipeline(json_object(files.read(uri)), uri)


def require_ledger(files: LedgerFiles, folder: str, manifest: Manifest) -> None:
    """Refuse a manifest that lies in another ledger than it was pinned in.

    :param folder: the window's folder, where the manifest is.
    :raises LedgerConflictError: naming both.
    :raises LedgerCorruptError: as :func:`ledger_identity`.
    """
    pipeline_uri = pipeline_folder(folder)
    found = ledger_identity(files, pipeline_uri).ledger_id
    if found != manifest.ledger_id:
        raise LedgerConflictError(
            f"The manifest in {folder} was pinned in ledger {manifest.ledger_id}, and {pipeline_uri} is ledger "
            f"{found}. A ledger is moved or restored as a whole folder, pipeline.json included. Nothing is published."
        )
