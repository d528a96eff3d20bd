"""A ledger's identity as the driver finds it: in ``pipeline.json``, beside the windows that it acts on."""

from __future__ import annotations

import json

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.manifest import LEDGER_ID, PIPELINE_NAME, Manifest
from airflow_kafka_offsets.spark.hadoop import HadoopFiles

PIPELINE = "pipeline.json"
_BELOW = 3
"""A window's folder is ``windows/<month>/<window>`` below its pipeline's."""


def ledger_identity(files: HadoopFiles, pipeline_uri: str) -> tuple[str, str]:
    """A ledger's identity, and its pipeline's name.

    :param pipeline_uri: the pipeline's folder.
    :raises LedgerCorruptError: when there is no ``pipeline.json`` that says it.
    """
    uri = f"{pipeline_uri}/{PIPELINE}"
    try:
        fields = json.loads(files.read(uri) or b"null")
        found, pipeline = fields["ledger_id"], fields["pipeline"]
        if LEDGER_ID.fullmatch(found) and PIPELINE_NAME.fullmatch(pipeline):
            return found, pipeline
    except (KeyError, TypeError, ValueError):
        pass
    raise LedgerCorruptError(
        f"{uri} is missing or names no ledger_id. It is what tells this ledger from others: restore the file as it was."
    )


def require_ledger(files: HadoopFiles, folder: str, manifest: Manifest) -> None:
    """Refuse a manifest that lies in another ledger than it was pinned in.

    :param folder: the window's folder, where the manifest is.
    :raises LedgerConflictError: naming both.
    :raises LedgerCorruptError: as :func:`ledger_identity`.
    """
    pipeline_uri = folder.rsplit("/", _BELOW)[0]
    found, _ = ledger_identity(files, pipeline_uri)
    if found != manifest.ledger_id:
        raise LedgerConflictError(
            f"The manifest in {folder} was pinned in ledger {manifest.ledger_id}, and {pipeline_uri} is ledger "
            f"{found}. A ledger is moved or restored as a whole folder, pipeline.json included. Nothing is published."
        )
