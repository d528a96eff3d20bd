"""The window as a task has seen it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.proof.publication import FurtherOutput
from airflow_kafka_offsets.offsets.windows.tiling import Tiling


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """What a task knows of its window so far. It is kept because OpenLineage asks in a fork, without connections.

    :param pinned: the window.
    :param bootstrap_servers: brokers of its topics; empty where the task asks none.
    :param output: folder with its published rows; None before they are, and for an empty window.
    :param rows: how many they are.
    :param further: a job's other outputs.
    :param verdict: what was found of them; None where nobody judged.
    :param tiling: how the window meets its neighbours; None where nobody looked.
    """

    pinned: PinnedManifest
    bootstrap_servers: tuple[str, ...] = ()
    output: str | None = None
    rows: int | None = None
    further: tuple[FurtherOutput, ...] = ()
    verdict: Verdict | None = None
    tiling: Tiling | None = None
