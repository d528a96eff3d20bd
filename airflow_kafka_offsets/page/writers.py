"""Writers: the Dags that load a pipeline, as its attempts name them. Users who may not read them can't see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.proof.publication import Publication

_LATEST = 10
"""How many of the last windows that have an attempt are looked at."""


def dags_of_pipeline(ledger: Ledger, summaries: Sequence[WindowSummary]) -> frozenset[str]:
    """The Dags that made the attempts of the last windows; empty if no attempt names a Dag."""
    latest = [summary for summary in summaries if summary.attempts][-_LATEST:]
    return _dags_of(ledger.window_folders.folder(each.window, each.revision) for each in latest)


def dags_of_window(ledger: Ledger, window: str, folders: Iterable[WindowFolder]) -> frozenset[str]:
    """The Dags that made a window's attempts and publications, including publications of forgotten revisions.

    Call this after reading what is shown: attempts and publications are never deleted, so no Dag is missed.

    :param folders: the revisions that are shown.
    """

    def of_publication(publication: Publication) -> set[str]:
        return _dag_of(ledger.window_folders.folder(window, publication.revision), publication.attempt)

    published = ledger.window_folders.folder(window, 1).publications.all()
    return _dags_of(folders).union(*in_parallel(of_publication, published))


def _dags_of(folders: Iterable[WindowFolder]) -> frozenset[str]:
    return frozenset().union(*in_parallel(_of_folder, folders))


def _of_folder(folder: WindowFolder) -> set[str]:
    return set().union(*(_dag_of(folder, attempt) for attempt in folder.listing().attempts))


def _dag_of(folder: WindowFolder, attempt: str) -> set[str]:
    run = folder.attempt(attempt).get("airflow") or {}
    return {str(run["dag_id"])} if run.get("dag_id") else set()
