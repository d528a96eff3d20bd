"""The page's routes, GET only: JSON below ``api/``, and the page's files. All of them check the user's permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

from anyio import CapacityLimiter, WouldBlock
from anyio.to_thread import run_sync
from fastapi import FastAPI, Header, HTTPException, Request, Response, status

from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page import failures
from airflow_kafka_offsets.page.ledger_routes import OwnThreads, as_json, serve_offsets, serve_windows
from airflow_kafka_offsets.page.ledgers import Ledgers
from airflow_kafka_offsets.page.permissions import ASKS, AnyReader
from airflow_kafka_offsets.page.waits import page_kafka_conn_id, read_waits, waits_now

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
_STATIC = Path(__file__).parent / "static"
_FILES = {
    file.relative_to(_STATIC).as_posix(): kind
    for ending, kind in {"css": "text/css", "js": "text/javascript"}.items()
    for file in _STATIC.rglob(f"*.{ending}")
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
    ledgers, reading = Ledgers(), in_own_thread(_READERS)
    serve_windows(app, reading, ledgers)
    serve_offsets(app, reading, ledgers)
    _serve_waits(app, in_own_thread(_WAITS_READERS), in_own_thread(_ASKING_KAFKA, _BUSY))
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
    @app.get("/")
    def page() -> Response:
        return Response((_STATIC / "index.html").read_bytes(), media_type="text/html")

    @app.get("/static/{name:path}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(status.HTTP_404_NOT_FOUND)
        return Response((_STATIC / name).read_bytes(), media_type=_FILES[name])


def _serve_waits(app: FastAPI, in_own_thread: OwnThreads, asking: OwnThreads) -> None:
    @app.get("/api/waits")
    @in_own_thread
    def waiting(reader: AnyReader) -> Response:
        with failures.of(*failures.DATABASE):
            found, more = read_waits(reader.may_read_tasks, _MOST_WAITS)
        answer = {"now_ms": now_ms(), "asks_kafka": bool(page_kafka_conn_id()), "more": more}
        return as_json(answer | {"waits": [each.shown for each in found]})

    @app.get("/api/waits/now")
    @asking
    def now(reader: AnyReader, x_requested_with: Annotated[str | None, Header()] = None) -> Response:
        # A link or an image on another site can't send the header. (Sec-Fetch-Site isn't sent over plain HTTP.)
        if x_requested_with is None:
            raise HTTPException(status.HTTP_403_FORBIDDEN, "Only the button on the page asks Kafka.")
        if not page_kafka_conn_id():
            raise HTTPException(status.HTTP_400_BAD_REQUEST, _NOT_ASKED)
        with failures.of(*failures.DATABASE):
            found, more = read_waits(reader.may_read_tasks, _MOST_WAITS)
        with failures.of(*failures.KAFKA):
            answer = waits_now(found)
        return as_json({"now_ms": now_ms(), "asks_kafka": True, "more": more} | answer)
