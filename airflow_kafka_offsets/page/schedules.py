"""The schedules of the Dags that load a pipeline, from Airflow's database: whether they are paused, and which run is
next."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_kafka_offsets.offsets.instants import instant_ms

log = logging.getLogger(__name__)

Json = dict[str, Any]


def schedules(dag_ids: Collection[str]) -> dict[str, Json]:
    """Of each Dag that Airflow knows: whether it is ``paused``, and the ``next`` interval that its schedule gives a run
    (start and end, Unix milliseconds; None if none is known). If the database fails, the page is shown without."""
    query = select(
        DagModel.dag_id,
        DagModel.is_paused,
        DagModel.next_dagrun_data_interval_start,
        DagModel.next_dagrun_data_interval_end,
    ).where(DagModel.dag_id.in_(dag_ids))
    try:
        with create_session() as session:
            return {
                dag_id: {"paused": bool(paused), "next": _interval(start, end)}
                for dag_id, paused, start, end in session.execute(query)
            }
    except Exception:  # each database has its own exceptions
        log.exception("Can't read the Dags' schedules from Airflow's database.")
        return {}


def _interval(start: datetime | None, end: datetime | None) -> tuple[int, int] | None:
    return None if start is None or end is None or start >= end else (instant_ms(start), instant_ms(end))
