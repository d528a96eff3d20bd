"""The page's routes, GET only: JSON below ``api/``, and the page's files. All of them check the user's permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from importlib.resources import files
from typing import Annotated, Any

from anyio import CapacityLimiter, WouldBlock
from anyio.to_thread import run_sync
from fastapi import FastAPI, Header, HTTPException, Query, Request, Response, status

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page import failures
from airflow_kafka_offsets.page.file import MODULES, UPLOT, UPLOT_CSS
from airflow_kafka_offsets.page.kafka_now import kafka_now, page_kafka_conn_id
from airflow_kafka_offsets.page.ledger_routes import OwnThreads, as_json, dates, permitted, serve_ledgers
from airflow_kafka_offsets.page.ledgers import Answer, Cache, Ledgers, as_seen, encoded
from airflow_kafka_offsets.page.permissions import ASKS, AnyReader
from airflow_kafka_offsets.page.waits import read_waits, waits_now

_MOST_WAITS = 1_000
_READERS = 8
"""How many requests read ledgers at a time."""
_WAITS_READERS = 2
"""How many requests read waits at a time, each with a connection to Airflow's database. A store that hangs can't block
them."""
_ASKING_KAFKA = 2
"""How many requests ask Kafka at a time; others are refused at once. A broker that hangs can't block other threads."""
_BUSY = "Other users are asking Kafka right now. Try again in a few seconds."
_NOT_ASKED = "The page can't ask Kafka: [kafka_offsets] page_kafka_conn_id names no connection."
_KAFKA_VALID_MS = 5_000
"""How long an answer from Kafka is valid, for all users."""
_LONGEST_GROUP = 1_000
_FILES = {
    name: "text/css" if name.endswith(".css") else "text/javascript"
    for name in (UPLOT_CSS, UPLOT, "page.css", *MODULES)
}
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
    """The app, without FastAPI's documentation routes, which anybody could read."""
    app = FastAPI(title="Kafka windows", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[ASKS])
    app.middleware("http")(_with_headers)
    _serve_files(app)
    ledgers = Ledgers()
    serve_ledgers(app, in_own_thread(_READERS), ledgers)
    asking = in_own_thread(_ASKING_KAFKA, _BUSY)
    _serve_kafka(app, asking, ledgers)
    _serve_waits(app, in_own_thread(_WAITS_READERS), asking)
    return app


def in_own_thread(most: int, busy: str | None = None) -> OwnThreads:
    """Run a route in this many threads of the page's own. The api-server's also answer the heartbeats of running tasks,
    and a store or a broker that hangs mustn't block those.

    :param busy: why requests are refused while no thread is free; None if they wait.
    """
    places, threads = CapacityLimiter(most), CapacityLimiter(most)

    def decorate(route: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        @wraps(route)
        async def answer(**arguments: Any) -> Response:
            if busy is None:
                return await run_sync(partial(route, **arguments), limiter=threads)
            place = object()
            try:
                places.acquire_on_behalf_of_nowait(place)
            except WouldBlock as error:
                raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, busy) from error
            try:
                return await run_sync(partial(route, **arguments), limiter=threads)
            finally:
                places.release_on_behalf_of(place)

        return answer

    return decorate


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(_HEADERS)
    return response


def _serve_files(app: FastAPI) -> None:
    static = files("airflow_kafka_offsets.page") / "static"

    @app.get("/")
    def page() -> Response:
        return Response((static / "index.html").read_bytes(), media_type="text/html")

    @app.get("/static/{name:path}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(status.HTTP_404_NOT_FOUND)
        return Response((static / name).read_bytes(), media_type=_FILES[name])


def _serve_kafka(app: FastAPI, in_own_thread: OwnThreads, ledgers: Ledgers) -> None:
    kept = Cache(_KAFKA_VALID_MS)

    @app.get("/api/pipelines/{pipeline}/now")
    @in_own_thread
    def now(
        reader: AnyReader,
        pipeline: str,
        group: Annotated[str | None, Query(min_length=1, max_length=_LONGEST_GROUP)] = None,
        x_requested_with: Annotated[str | None, Header()] = None,
    ) -> Response:
        _require_button(x_requested_with)
        with failures.of_a_ledger():
            found = permitted(ledgers, pipeline, reader)
            _require_connection()

            def ask() -> Answer:
                return Answer(encoded(kafka_now(as_seen(pipeline, found), group)))

            with failures.of_kafka():
                answer = kept.get(pipeline, (found.answer.state.number, group), ask)
        return as_json(dates(answer), answer.answer.shown)


def _require_button(x_requested_with: str | None) -> None:
    """Refuse a question to Kafka that isn't the page's own. A link or an image on another site can't send the header.
    (Sec-Fetch-Site isn't sent over plain HTTP.)

    :raises HTTPException: 403.
    """
    if x_requested_with is None:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Only the button on the page asks Kafka.")


def _require_connection() -> None:
    """Refuse to ask Kafka if no setting names a connection."""
    if not page_kafka_conn_id():
        raise ConfigurationError(_NOT_ASKED)


def _serve_waits(app: FastAPI, in_own_thread: OwnThreads, asking: OwnThreads) -> None:
    @app.get("/api/waits")
    @in_own_thread
    def waiting(reader: AnyReader) -> Response:
        with failures.of_the_database():
            found, more = read_waits(reader.may_read_tasks, _MOST_WAITS)
        answer = {"now_ms": now_ms(), "asks_kafka": bool(page_kafka_conn_id()), "more": more}
        return as_json(encoded(answer | {"waits": [each.shown for each in found]}))

    @app.get("/api/waits/now")
    @asking
    def now(reader: AnyReader, x_requested_with: Annotated[str | None, Header()] = None) -> Response:
        _require_button(x_requested_with)
        with failures.of_a_ledger():
            _require_connection()
        with failures.of_the_database():
            found, more = read_waits(reader.may_read_tasks, _MOST_WAITS)
        with failures.of_a_ledger(), failures.of_kafka():
            answer = waits_now(found)
        return as_json(encoded({"now_ms": now_ms(), "asks_kafka": True, "more": more} | answer))
