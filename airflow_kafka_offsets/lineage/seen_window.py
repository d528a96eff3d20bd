"""What a task knows of its window, for links and OpenLineage."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.proof.publication import FurtherOutput
from airflow_kafka_offsets.offsets.windows.tiling import Tiling


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """What a task knows of its window. Kept on the task, because OpenLineage asks in a fork without connections.

    :param pinned: the window.
    :param bootstrap_servers: brokers of its topics; empty when the task doesn't ask Kafka.
    :param output: folder with its published rows; None until they are published, and for an empty window.
    :param rows: number of published rows.
    :param further: a job's other outputs.
    :param verdict: the verdict on the rows; None when they weren't checked.
    :param tiling: how the window meets its neighbours; None when that wasn't checked.
    """

    pinned: PinnedManifest
    bootstrap_servers: tuple[str, ...] = ()
    output: str | None = None
    rows: int | None = None
    further: tuple[FurtherOutput, ...] = ()
    verdict: Verdict | None = None
    tiling: Tiling | None = None
