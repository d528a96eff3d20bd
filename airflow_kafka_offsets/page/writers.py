"""Writers: the Dags that load a pipeline, as its attempts name them. Who may not read them doesn't see the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.window_folder import WindowFolder

_LATEST = 10
"""So many windows with an attempt are asked, from the last one back."""


def dags_of_pipeline(ledger: Ledger, summaries: Sequence[WindowSummary]) -> frozenset[str]:
    """The Dags that made the attempts of the last windows; empty where no attempt names one."""
    latest = [summary for summary in summaries if summary.attempts][-_LATEST:]
    return dags_of(ledger.window_folders.revision(each.window, each.revision) for each in latest)


def dags_of(folders: Iterable[WindowFolder]) -> frozenset[str]:
    """The Dags that made the attempts of some windows."""
    return frozenset().union(*in_parallel(_of_folder, folders))


def _of_folder(folder: WindowFolder) -> set[str]:
    runs = (folder.attempt(attempt).get("airflow") or {} for attempt in folder.listing().attempts)
    return {str(run["dag_id"]) for run in runs if run.get("dag_id")}
