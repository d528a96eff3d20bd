"""The page's routes, GET only: JSON below ``api/``, and the page's files. All of them check the user's permissions."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from importlib.resources import files
from typing import Annotated, Any

from anyio import CapacityLimiter, WouldBlock
from anyio.to_thread import run_sync
from fastapi import FastAPI, Header, HTTPException, Query, Request, Response, status

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    KafkaOffsetsError,
    LedgerError,
    OffsetsError,
    TopicChangedError,
)
from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.ledger_names import PIPELINE_NAME, is_window
from airflow_kafka_offsets.page.answer import Answer, encoded, joined
from airflow_kafka_offsets.page.cache import Cache, Dated
from airflow_kafka_offsets.page.file import MODULES, UPLOT, UPLOT_CSS
from airflow_kafka_offsets.page.kafka_now import kafka_now, page_kafka_conn_id
from airflow_kafka_offsets.page.ledgers import Ledgers
from airflow_kafka_offsets.page.permissions import ASKS, AnyReader, Reader, absent
from airflow_kafka_offsets.page.record import record, record_query
from airflow_kafka_offsets.page.timeline import timeline
from airflow_kafka_offsets.page.waits import waits
from airflow_kafka_offsets.page.window_panel import window_panel
from airflow_kafka_offsets.page.windows_table import windows_table

log = logging.getLogger(__name__)

_OwnThreads = Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]
"""Makes a route run in the page's own threads."""
_MOST_WINDOWS = 200
_MOST_SNAPSHOTS = 400
_MOST_WAITS = 1_000
_LONGEST_TOPIC = 249
"""Kafka's limit."""
_LONGEST_KEY = 1_000
"""Kafka has no limit; for longer keys, use the command."""
_LONGEST_INSTANT = 40
"""ISO-8601 with nanoseconds and a zone has 35 characters."""
_READERS = 8
"""How many requests read ledgers at a time; others wait without a thread. These are separate threads, because the
api-server's own also answer the heartbeats of running tasks, and a store that hangs mustn't block those."""
_ANOTHER_DAGS = "Another Dag has loaded a window in this answer, and you may not read that Dag."
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
_UNREADABLE = (
    "A file of this ledger can't be read, so it isn't known which Dags made what you asked for. To users who may read "
    "all Dags, this page says what is wrong; kafka-offsets ledger verify says it too."
)
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
    _serve_ledgers(app, _in_own_thread(CapacityLimiter(_READERS)), ledgers)
    _serve_kafka(app, _in_own_thread_or_refused(_ASKING_KAFKA), ledgers)
    _serve_waits(app, _in_own_thread(CapacityLimiter(_WAITS_READERS)))
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

    @app.get("/static/{name:path}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(status.HTTP_404_NOT_FOUND)
        return Response((static / name).read_bytes(), media_type=_FILES[name])


def _serve_ledgers(app: FastAPI, in_own_thread: _OwnThreads, ledgers: Ledgers) -> None:
    @app.get("/api/pipelines")
    @in_own_thread
    def pipelines(reader: AnyReader) -> Response:
        with _errors_as_answers():
            rows = [_row(ledgers, name, reader) for name in ledgers.pipelines()]
        listed = b'{"pipelines":[' + b",".join(filter(None, rows)) + b"]}"
        return _json(encoded({"now_ms": now_ms()}), listed)

    @app.get("/api/pipelines/{pipeline}")
    @in_own_thread
    def windows(
        reader: AnyReader,
        pipeline: str,
        before: str | None = None,
        most: Annotated[int, Query(ge=1, le=_MOST_WINDOWS)] = 100,
    ) -> Response:
        if before is not None:
            _require_window(before)

        def read(ledger: Ledger) -> Answer:
            return Answer(encoded(windows_table(ledger, overview.summaries, before, most)), overview.dag_ids)

        with _errors_as_answers():
            found = _permitted(ledgers, pipeline, reader)
            overview = found.answer
            # The key contains the overview's age, so that both are equally old and for the same users.
            table = _own(ledgers, pipeline, reader, ("windows", found.read_ms, before, most), read).answer
        asks = encoded({"asks_kafka": bool(page_kafka_conn_id())})
        return _json(_dates(found), asks, table.shown, b'{"overview":' + overview.shown + b"}")

    @app.get("/api/pipelines/{pipeline}/windows/{window}")
    @in_own_thread
    def window(reader: AnyReader, pipeline: str, window: str) -> Response:
        _require_window(window)
        with _errors_as_answers():
            _permitted(ledgers, pipeline, reader)
            found = _own(ledgers, pipeline, reader, ("window", window), lambda ledger: window_panel(ledger, window))
        if not found.answer.shown:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"{pipeline} has no window {window} that counts.")
        return _json(_dates(found), found.answer.shown)

    @app.get("/api/pipelines/{pipeline}/offsets")
    @in_own_thread
    def offsets(
        reader: AnyReader,
        pipeline: str,
        topic: Annotated[str, Query(max_length=_LONGEST_TOPIC)],
        partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
        most: Annotated[int, Query(ge=1, le=_MOST_SNAPSHOTS)] = 100,
        of: Annotated[int | None, Query(ge=1)] = None,
    ) -> Response:
        def read(ledger: Ledger) -> Answer:
            found = timeline(ledger, overview.summaries, topic, partition, most, max(most, of or 0))
            return Answer(encoded(found), overview.dag_ids)

        with _errors_as_answers():
            permitted = _permitted(ledgers, pipeline, reader)
            overview = permitted.answer
            question = ("offsets", permitted.read_ms, topic, partition, most, of)
            found = _own(ledgers, pipeline, reader, question, read)
        return _json(_dates(found), found.answer.shown)

    @app.get("/api/pipelines/{pipeline}/records")
    @in_own_thread
    def records(
        reader: AnyReader,
        pipeline: str,
        topic: Annotated[str, Query(max_length=_LONGEST_TOPIC)],
        partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
        offset: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
        key: Annotated[str | None, Query(max_length=_LONGEST_KEY)] = None,
        at: Annotated[str | None, Query(max_length=_LONGEST_INSTANT)] = None,
    ) -> Response:
        with _errors_as_answers():
            _permitted(ledgers, pipeline, reader)
            query = record_query(topic, partition, offset, key, at)
            found = _own(ledgers, pipeline, reader, query, lambda ledger: record(ledger, query))
        return _json(_dates(found), found.answer.shown)


def _serve_kafka(app: FastAPI, in_own_thread: _OwnThreads, ledgers: Ledgers) -> None:
    kept = Cache(_KAFKA_VALID_MS)

    @app.get("/api/pipelines/{pipeline}/now")
    @in_own_thread
    def now(
        reader: AnyReader,
        pipeline: str,
        group: Annotated[str | None, Query(min_length=1, max_length=_LONGEST_GROUP)] = None,
        x_requested_with: Annotated[str | None, Header()] = None,
    ) -> Response:
        # A link or an image on another site can't send it. (Sec-Fetch-Site isn't sent over plain HTTP.)
        if x_requested_with is None:
            raise HTTPException(status.HTTP_403_FORBIDDEN, "Only the button on the page asks Kafka.")
        with _errors_as_answers():
            permitted = _permitted(ledgers, pipeline, reader)
            overview = permitted.answer
            if not page_kafka_conn_id():
                raise ConfigurationError(_NOT_ASKED)
            topics = json.loads(overview.shown)["topics"]

            def ask() -> Answer:
                return Answer(encoded(kafka_now(ledger_of(None, pipeline), overview.summaries, topics, group)))

            found = _of_kafka(reader, lambda: kept.get(pipeline, (permitted.read_ms, group), ask))
        return _json(_dates(found), found.answer.shown)


def _of_kafka(reader: Reader, ask: Callable[[], Dated]) -> Dated:
    """Kafka's answer. Most errors only go to the api-server's log, because they may name brokers and settings."""
    try:
        return ask()
    except TopicChangedError:
        raise
    except OffsetsError as error:
        log.warning("Kafka's answer for the page has errors: %s", error)
        failures = [(what, replace(said, message="")) for what, said in error.failures]
        raise OffsetsError(error.asked, failures) from error
    except LedgerError as error:
        if reader.may_read(()):
            raise
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, _UNREADABLE) from error
    except Exception as error:  # connections raise many types
        log.warning("The page can't ask Kafka: %s", error)
        detail = f"Kafka couldn't be asked ({type(error).__name__}). The api-server's log says more."
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, detail) from error


def _serve_waits(app: FastAPI, in_own_thread: _OwnThreads) -> None:
    @app.get("/api/waits")
    @in_own_thread
    def waiting(reader: AnyReader) -> Response:
        try:
            found = waits(reader.may_read_tasks, _MOST_WAITS)
        except Exception as error:  # each database has its own exceptions
            log.exception("Can't read from Airflow's database what sensors wait for.", exc_info=error)
            detail = f"Airflow's database failed ({type(error).__name__}). The api-server's log says more."
            raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, detail) from error
        return _json(encoded({"now_ms": now_ms()} | found))


def _in_own_thread(limiter: CapacityLimiter) -> _OwnThreads:
    """Run a route in the page's own threads. While none is free, requests wait."""

    def decorate(route: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        @wraps(route)
        async def answer(**arguments: Any) -> Response:
            return await run_sync(partial(route, **arguments), limiter=limiter)

        return answer

    return decorate


def _in_own_thread_or_refused(most: int) -> _OwnThreads:
    """Run a route in this many threads of its own. While none is free, requests are refused."""
    places, threads = CapacityLimiter(most), CapacityLimiter(most)

    def decorate(route: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        @wraps(route)
        async def answer(**arguments: Any) -> Response:
            place = object()
            try:
                places.acquire_on_behalf_of_nowait(place)
            except WouldBlock as error:
                raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, _BUSY) from error
            try:
                return await run_sync(partial(route, **arguments), limiter=threads)
            finally:
                places.release_on_behalf_of(place)

        return answer

    return decorate


def _row(ledgers: Ledgers, pipeline: str, reader: Reader) -> bytes | None:
    """A pipeline's row; None if the user may not read it. An error becomes a row, so that it doesn't hide others."""
    try:
        found = ledgers.overview(pipeline)
    except Exception as error:  # each store has its own exceptions
        words = str(error) if isinstance(error, KafkaOffsetsError) else _store_failed(error)
        return encoded({"pipeline": pipeline, "error": words}) if reader.may_read(()) else None
    if not reader.may_read(found.answer.dag_ids):
        return None
    return joined(encoded({"read_ms": found.read_ms}), found.answer.shown)


def _permitted(ledgers: Ledgers, pipeline: str, reader: Reader) -> Dated:
    """A pipeline's overview, for a user who may read it.

    :raises HTTPException: 404 if the user may not, or if there is no such pipeline.
    """
    if not PIPELINE_NAME.fullmatch(pipeline) or not ledgers.has(pipeline):
        raise absent()
    try:
        found = ledgers.overview(pipeline)
    except Exception:
        reader.require(())
        raise
    reader.require(found.answer.dag_ids)
    return found


def _own(
    ledgers: Ledgers, pipeline: str, reader: Reader, question: Hashable, read: Callable[[Ledger], Answer]
) -> Dated:
    """An answer about a pipeline that the user may read. It may involve other Dags than the pipeline's overview.

    :raises HTTPException: 403 if the user may not read all Dags that made what it shows. 502 if the ledger can't be
        read, so that these Dags aren't known, and the user may not read all Dags of Airflow.
    """
    try:
        found = ledgers.ask(pipeline, question, read)
    except ConfigurationError:
        raise
    except KafkaOffsetsError as error:
        if reader.may_read(()):
            raise
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, _UNREADABLE) from error
    if found.answer.dag_ids and not reader.may_read(found.answer.dag_ids):
        raise HTTPException(status.HTTP_403_FORBIDDEN, _ANOTHER_DAGS)
    return found


def _dates(found: Dated) -> bytes:
    return encoded({"read_ms": found.read_ms, "now_ms": now_ms()})


def _json(*shown: bytes) -> Response:
    return Response(joined(*shown), media_type="application/json")


def _require_window(name: str) -> None:
    if not is_window(name):
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no window of that name.")


@contextmanager
def _errors_as_answers() -> Iterator[None]:
    """Turn errors into answers. A store's own message goes only to the api-server's log: it may contain secrets."""
    try:
        yield
    except HTTPException:
        raise
    except ConfigurationError as error:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, str(error)) from error
    except KafkaOffsetsError as error:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, str(error)) from error
    except Exception as error:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, _store_failed(error)) from error


def _store_failed(error: Exception) -> str:
    log.exception("The ledger can't be read.", exc_info=error)
    return f"The ledger's store failed ({type(error).__name__}). The api-server's log says more."
