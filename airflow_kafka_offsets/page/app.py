"""The page's routes, GET alone: JSON below ``api/``, and the files of the page. All of them ask who asks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial, wraps
from importlib.resources import files
from typing import Annotated, Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import FastAPI, HTTPException, Query, Request, Response, status

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.ledger.whereabouts import find_known
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.ledger_names import PIPELINE_NAME, is_window
from airflow_kafka_offsets.page.cache import Dated
from airflow_kafka_offsets.page.grid import grid
from airflow_kafka_offsets.page.ledgers import Ledgers
from airflow_kafka_offsets.page.overview import Overview
from airflow_kafka_offsets.page.permissions import ASKS, AnyReader, Reader, absent
from airflow_kafka_offsets.page.window_panel import window_panel

log = logging.getLogger(__name__)

Json = dict[str, Any]

_MOST_WINDOWS = 200
_LONGEST_TOPIC = 249
"""What Kafka allows."""
_READERS = 8
"""Requests that read ledgers at a time; more of them wait without a thread. The api-server's own threads answer the
heartbeats of running tasks too: a store that hangs may not hold them."""
_FILES = {"page.css": "text/css", "page.js": "text/javascript", "drawing.js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def make_app() -> FastAPI:
    """The app. It has no description of itself at an address that anybody may read."""
    app = FastAPI(title="Kafka windows", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[ASKS])
    app.middleware("http")(_with_headers)
    _serve_files(app)
    _serve_ledgers(app, Ledgers())
    return app


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(_HEADERS)
    return response


def _serve_files(app: FastAPI) -> None:
    static = files("airflow_kafka_offsets.page") / "static"

    @app.get("/")
    def page() -> Response:
        return Response((static / "index.html").read_bytes(), media_type="text/html")

    @app.get("/static/{name}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(status.HTTP_404_NOT_FOUND)
        return Response((static / name).read_bytes(), media_type=_FILES[name])


def _serve_ledgers(app: FastAPI, ledgers: Ledgers) -> None:
    apart = _apart(CapacityLimiter(_READERS))

    @app.get("/api/pipelines")
    @apart
    def pipelines(reader: AnyReader) -> Json:
        with _telling():
            rows = [_row(ledgers, name, reader) for name in ledgers.pipelines()]
        return {"now_ms": now_ms(), "pipelines": [row for row in rows if row is not None]}

    @app.get("/api/pipelines/{pipeline}")
    @apart
    def windows(
        reader: AnyReader,
        pipeline: str,
        before: str | None = None,
        most: Annotated[int, Query(ge=1, le=_MOST_WINDOWS)] = 100,
    ) -> Json:
        if before is not None:
            _require_window(before)
        with _telling():
            overview, summaries = _permitted(ledgers, pipeline, reader).value
            found = ledgers.ask(pipeline, ("grid", before, most), lambda ledger: grid(ledger, summaries, before, most))
        return _dated(found) | {"overview": _fields(overview)}

    @app.get("/api/pipelines/{pipeline}/windows/{window}")
    @apart
    def window(reader: AnyReader, pipeline: str, window: str) -> Json:
        _require_window(window)
        with _telling():
            _permitted(ledgers, pipeline, reader)
            _require_own(reader, ledgers.writers(pipeline, window))
            found = ledgers.ask(pipeline, ("window", window), lambda ledger: window_panel(ledger, window))
        if found.value is None:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"{pipeline} has no window {window} that counts.")
        return _dated(found)

    @app.get("/api/pipelines/{pipeline}/records")
    @apart
    def record(
        reader: AnyReader,
        pipeline: str,
        topic: Annotated[str, Query(max_length=_LONGEST_TOPIC)],
        partition: Annotated[int, Query(ge=0, lt=2**31)],
        offset: Annotated[int, Query(ge=0, lt=2**63)],
    ) -> Json:
        with _telling():
            _permitted(ledgers, pipeline, reader)
            question = ("record", topic, partition, offset)
            found = ledgers.ask(pipeline, question, lambda ledger: asdict(find_known(ledger, topic, partition, offset)))
            if found.value["window"] is not None:
                _require_own(reader, ledgers.writers(pipeline, found.value["window"]))
        return _dated(found)


def _apart(limiter: CapacityLimiter) -> Callable[[Callable[..., Json]], Callable[..., Awaitable[Json]]]:
    """Have a route that reads ledgers wait in threads of the page's own."""

    def decorate(route: Callable[..., Json]) -> Callable[..., Awaitable[Json]]:
        @wraps(route)
        async def answer(**asked: Any) -> Json:
            return await run_sync(partial(route, **asked), limiter=limiter)

        return answer

    return decorate


def _row(ledgers: Ledgers, pipeline: str, reader: Reader) -> Json | None:
    """A pipeline's row; None for a user who may not read it. What is wrong with one hides no other."""
    try:
        found = ledgers.overview(pipeline)
    except Exception as error:  # each store has its own
        told = str(error) if isinstance(error, KafkaOffsetsError) else _told(error)
        return {"pipeline": pipeline, "error": told} if reader.may_read(()) else None
    overview = found.value[0]
    return {"read_ms": found.read_ms} | _fields(overview) if reader.may_read(overview.dag_ids) else None


def _permitted(ledgers: Ledgers, pipeline: str, reader: Reader) -> Dated[Any]:
    """A pipeline's overview and windows, for a user who may read them.

    :raises HTTPException: 404 for everybody else, and where there is none.
    """
    if not PIPELINE_NAME.fullmatch(pipeline) or pipeline not in ledgers.pipelines():
        raise absent()
    try:
        found = ledgers.overview(pipeline)
    except Exception:
        reader.require(())
        raise
    reader.require(found.value[0].dag_ids)
    return found


def _require_own(reader: Reader, dag_ids: Iterable[str]) -> None:
    """Of a pipeline that a user may read, refuse a window that a Dag has loaded which the user may not read."""
    asked = frozenset(dag_ids)
    if asked and not reader.may_read(asked):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Another Dag has loaded this window, which you may not read.")


def _fields(overview: Overview) -> Json:
    return asdict(overview) | {"dag_ids": sorted(overview.dag_ids)}


def _dated(found: Dated[Any]) -> Json:
    return {"read_ms": found.read_ms, "now_ms": now_ms(), **found.value}


def _require_window(name: str) -> None:
    if not is_window(name):
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no window of that name.")


@contextmanager
def _telling() -> Iterator[None]:
    """Answer in words what went wrong. What a store says stays in the api-server's log: it may name what is secret."""
    try:
        yield
    except HTTPException:
        raise
    except ConfigurationError as error:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, str(error)) from error
    except KafkaOffsetsError as error:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, str(error)) from error
    except Exception as error:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, _told(error)) from error


def _told(error: Exception) -> str:
    log.exception("The ledger can't be read.", exc_info=error)
    return f"The ledger's store failed ({type(error).__name__}). The log of the api-server says more."
