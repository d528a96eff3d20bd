"""The page's answers about ledgers, as JSON. Each is made from one state of a pipeline's log, whose Dags the user must
be allowed to read. The schedules of these Dags come from Airflow's database."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import FastAPI, HTTPException, Query, Response, status
from sqlalchemy import select

from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.instants import instant_ms, now_ms
from airflow_kafka_offsets.offsets.windows.ledger_names import PIPELINE_NAME, is_window
from airflow_kafka_offsets.page import failures
from airflow_kafka_offsets.page.ledgers import Dated, Json, Ledgers, Pipeline
from airflow_kafka_offsets.page.overview import dags_of_pipeline, dags_of_window
from airflow_kafka_offsets.page.permissions import AnyReader, Reader, absent
from airflow_kafka_offsets.page.timeline import timeline
from airflow_kafka_offsets.page.windows import record, window_panel, windows_table

log = logging.getLogger(__name__)

_MOST_EXACT = 2**53 - 1
_MOST_WINDOWS = 200
_MOST_SNAPSHOTS = 400
_LONGEST_TOPIC = 249
"""Kafka's limit."""
_ANOTHER_DAGS = "Another Dag has loaded a window in this answer, and you may not read that Dag."

OwnThreads: TypeAlias = Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]
"""Makes a route run in the page's own threads."""
_Topic = Annotated[str, Query(max_length=_LONGEST_TOPIC)]
_Partition = Annotated[int, Query(ge=0, lt=2**31)]


def serve_windows(app: FastAPI, in_own_thread: OwnThreads, ledgers: Ledgers) -> None:
    """Add the routes about pipelines and their windows."""

    @app.get("/api/pipelines")
    @in_own_thread
    def pipelines(reader: AnyReader) -> Response:
        with failures.of_a_ledger():
            rows = [row for name in ledgers.names() if (row := _row(ledgers, name, reader)) is not None]
        dags = schedules({dag_id for row in rows for dag_id in row.get("dag_ids", ())})
        return as_json({"now_ms": now_ms(), "schedules": dags, "pipelines": rows})

    @app.get("/api/pipelines/{pipeline}")
    @in_own_thread
    def windows(
        reader: AnyReader,
        pipeline: str,
        before: str | None = None,
        most: Annotated[int, Query(ge=1, le=_MOST_WINDOWS)] = 100,
    ) -> Response:
        if before is not None:
            _require_name(before)
        with failures.of_a_ledger():
            found = permitted(ledgers, pipeline, reader)
            table = windows_table(found.answer.ledger, before, most)
        dags = schedules(dags_of_pipeline(found.answer.ledger.state))
        return as_json({**dates(found), "schedules": dags, **table, "overview": found.answer.overview})

    @app.get("/api/pipelines/{pipeline}/windows/{window}")
    @in_own_thread
    def window(reader: AnyReader, pipeline: str, window: str) -> Response:
        _require_name(window)
        with failures.of_a_ledger():
            found = permitted(ledgers, pipeline, reader)
            if window not in found.answer.ledger.state.windows:
                found = ledgers.pipeline(pipeline, anew=True)
            stored = found.answer.ledger.state.windows.get(window)
            if stored is None:
                raise HTTPException(status.HTTP_404_NOT_FOUND, f"{pipeline} has no window {window}.")
            _require_dags(reader, stored)
            messages = reader.may_read(dags_of_window(stored), DagAccessEntity.TASK_LOGS)
            panel = window_panel(found.answer.ledger, stored, messages=messages)
        return as_json(dates(found) | panel)


def serve_offsets(app: FastAPI, in_own_thread: OwnThreads, ledgers: Ledgers) -> None:
    """Add the routes about offsets and records."""

    @app.get("/api/pipelines/{pipeline}/offsets")
    @in_own_thread
    def offsets(
        reader: AnyReader,
        pipeline: str,
        topic: _Topic,
        partition: _Partition | None = None,
        most: Annotated[int, Query(ge=1, le=_MOST_SNAPSHOTS)] = 100,
    ) -> Response:
        with failures.of_a_ledger():
            found = permitted(ledgers, pipeline, reader)
            return as_json(dates(found) | timeline(found.answer.ledger, topic, partition, most))

    @app.get("/api/pipelines/{pipeline}/records")
    @in_own_thread
    def records(
        reader: AnyReader,
        pipeline: str,
        topic: _Topic,
        partition: _Partition,
        offset: Annotated[int, Query(ge=0, lt=2**63)],
    ) -> Response:
        with failures.of_a_ledger():
            found = permitted(ledgers, pipeline, reader)
            places = record(found.answer.ledger, topic, partition, offset)
            for place in places:
                if place["window"] is not None:
                    _require_dags(reader, found.answer.ledger.state.windows[place["window"]])
        return as_json(dates(found) | {"places": places})


def permitted(ledgers: Ledgers, pipeline: str, reader: Reader) -> Dated[Pipeline]:
    """A pipeline, for a user who may read it.

    :raises HTTPException: 404 if the user may not, or if there is no such pipeline.
    """
    if not PIPELINE_NAME.fullmatch(pipeline) or not ledgers.has(pipeline):
        raise absent()
    try:
        found = ledgers.pipeline(pipeline)
    except Exception:
        reader.require(())
        raise
    reader.require(dags_of_pipeline(found.answer.ledger.state))
    return found


def dates(found: Dated[Pipeline]) -> Json:
    """How old an answer is, and what time it is."""
    return {"read_ms": found.read_ms, "now_ms": now_ms()}


def as_json(answer: Json) -> Response:
    """A response. A whole number that a browser's numbers can't hold is text."""
    content = json.dumps(_exact(answer), separators=(",", ":"), allow_nan=False)
    return Response(content, media_type="application/json")


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) > _MOST_EXACT else value


def _row(ledgers: Ledgers, pipeline: str, reader: Reader) -> Json | None:
    """A pipeline's row; None if the user may not read it. An error becomes a row, so that it doesn't hide others."""
    try:
        found = ledgers.pipeline(pipeline)
    except Exception as error:  # each store has its own exceptions
        return {"pipeline": pipeline, "error": failures.in_words(error)} if reader.may_read(()) else None
    if not reader.may_read(found.answer.overview["dag_ids"]):
        return None
    return {"read_ms": found.read_ms} | found.answer.overview


def _require_dags(reader: Reader, window: Window) -> None:
    """Refuse a user who may not read all Dags that have made attempts at a window. They may be others than the
    pipeline's.

    :raises HTTPException: 403.
    """
    dag_ids = dags_of_window(window)
    if dag_ids and not reader.may_read(dag_ids):
        raise HTTPException(status.HTTP_403_FORBIDDEN, _ANOTHER_DAGS)


def _require_name(window: str) -> None:
    if not is_window(window):
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no window of that name.")


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
