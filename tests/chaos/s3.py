"""An S3 server that fails now and then, with faults drawn from a seed. It runs in a separate process.

It answers with an error, drops the connection without doing anything, or performs the request and then drops the
connection, so that a put succeeds but the client doesn't know.
"""

from __future__ import annotations

import multiprocessing
import random
import socket
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Self

from dev.ports import HOST
from dev.s3_server import S3Application, make_server

FAULTS = ("500 Internal Server Error", "503 Slow Down", "409 Conflict", "dropped unheard", "dropped unanswered")
_CODES = {"500": "InternalError", "503": "SlowDown", "409": "ConditionalRequestConflict"}
_CHANCE = 0.01
"""Probability of each fault, for each request."""
CREDENTIALS = {"key": "test", "secret": "test"}
_CONTEXT = multiprocessing.get_context("forkserver")


class FaultyS3:
    """A server: a context manager. At first, it has no faults."""

    def __init__(self, seed: str) -> None:
        self.stormy = _CONTEXT.Event()
        self._counts = _CONTEXT.Array("i", len(FAULTS))
        self._seed = seed
        self.endpoint = ""

    def __enter__(self) -> Self:
        here, there = _CONTEXT.Pipe()
        arguments = (there, self._seed, self.stormy, self._counts)
        self._process = _CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        self.endpoint = f"http://{HOST}:{here.recv()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    @property
    def counts(self) -> dict[str, int]:
        """How often each fault has happened."""
        return dict(zip(FAULTS, self._counts[:], strict=True))

    def options(self) -> dict[str, Any]:
        """fsspec's options for this server."""
        return CREDENTIALS | {"endpoint_url": self.endpoint, "client_kwargs": {"region_name": "us-east-1"}}


def _serve(connection: Any, seed: str, stormy: Any, counts: Any) -> None:
    server = make_server(_Faulty(S3Application(), seed, stormy, counts))
    connection.send(server.port)
    server.serve_forever()


class _Faulty:
    """A WSGI application in front of another one."""

    def __init__(self, app: Any, seed: str, stormy: Any, counts: Any) -> None:
        self._app = app
        self._rng = random.Random(seed)
        self._stormy = stormy
        self._counts = counts
        self._lock = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        fault = self._draw(environ)
        if fault is not None and fault[:3] in _CODES:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response(fault, [("Content-Type", "application/xml")])
            return [f"<Error><Code>{_CODES[fault[:3]]}</Code><Message>A drawn fault.</Message></Error>".encode()]
        if fault == "dropped unheard":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        answer = list(self._app(environ, start_response))
        if fault == "dropped unanswered":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer

    def _draw(self, environ: dict[str, Any]) -> str | None:
        if not self._stormy.is_set():
            return None
        with self._lock:
            number = int(self._rng.random() / _CHANCE)
        if number >= len(FAULTS) or (FAULTS[number].startswith("409") and "HTTP_IF_NONE_MATCH" not in environ):
            return None
        with self._counts.get_lock():
            self._counts[number] += 1
        return FAULTS[number]
