"""Requests over HTTP that end in time, whatever comes back: a socket's own time limit is for each of its reads, and an
answer may come byte by byte.
"""

from __future__ import annotations

import io
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from threading import Lock, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

THREAD = "token endpoint"
"""Name of the threads."""
_MOST_BYTES = 1 << 20
"""What is read of an answer: whoever answers there could fill a triggerer's memory otherwise."""
_ENDS_S = 2.0
"""A thread whose connection was cut has ended long before."""


class TimedRequests:
    """Requests one after the other, each in a thread of its own. None begins before the last one's thread has ended:
    only one at a time hangs where nothing can end it, in the look-up of a name for example."""

    def __init__(self) -> None:
        self._thread: Thread | None = None

    def answer(self, request: Request, context: ssl.SSLContext, timeout_s: float) -> bytes:
        """What is answered, to a limit. No redirect is followed.

        :raises TimeoutError: it takes longer, or the last one hasn't ended yet.
        :raises HTTPError: the answer has another status than 200; as much is read of it.
        """
        if self._thread is not None and self._thread.is_alive():
            raise TimeoutError("the last look-up hasn't ended, as where this machine's name service doesn't answer")
        line, answer = _Line(), Future[bytes]()

        def settle() -> None:
            try:
                answer.set_result(_ask(request, context, timeout_s, line))
            except BaseException as error:
                answer.set_exception(error)
            finally:
                line.close()

        self._thread = Thread(target=settle, name=THREAD, daemon=True)
        self._thread.start()
        try:
            return answer.result(timeout_s)
        except TimeoutError as error:
            line.cut()
            self._thread.join(_ENDS_S)
            raise TimeoutError(str(error) or f"no whole answer within {timeout_s:g} s") from None


class _Line:
    """The connection of one request. Another thread can cut it, whatever its own is waiting for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: list[socket.socket] = []
        self._is_cut = False

    def connected(self, *arguments: Any, **options: Any) -> socket.socket:
        """As ``socket.create_connection``."""
        connection = socket.create_connection(*arguments, **options)
        with self._lock:
            self._held.append(connection.dup())  # TLS takes the socket itself away
        if self._is_cut:
            self.cut()
        return connection

    def cut(self) -> None:
        """Whoever waits for it goes on at once, and finds it closed."""
        with self._lock, suppress(OSError):  # it has ended by itself
            self._is_cut = True
            for held in self._held:
                held.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hold nothing more."""
        with self._lock:
            for held in self._held:
                held.close()
            self._held.clear()

    def connections(self, kind: type[HTTPConnection]) -> Callable[..., HTTPConnection]:
        """Makes connections of a kind that can be cut, from their first byte on: a proxy's answer may drip too."""

        def make(*arguments: Any, **options: Any) -> HTTPConnection:
            made = kind(*arguments, **options)
            made._create_connection = self.connected  # type: ignore[attr-defined]  # http.client's place for another one
            return made

        return make


class _Http(HTTPHandler):
    def __init__(self, line: _Line) -> None:
        super().__init__()
        self._line = line

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._line.connections(HTTPConnection), req)


class _Https(HTTPSHandler):
    def __init__(self, line: _Line, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._line, self._trusted = line, context

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._line.connections(HTTPSConnection), req, context=self._trusted)


class _NoRedirect(HTTPRedirectHandler):
    """A secret goes to the address that is named, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _ask(request: Request, context: ssl.SSLContext, timeout_s: float, line: _Line) -> bytes:
    opener = build_opener(_Http(line), _Https(line, context), _NoRedirect())
    try:
        with opener.open(request, timeout=timeout_s) as response:
            answer: bytes = response.read(_MOST_BYTES)
            return answer
    except HTTPError as error:
        with error:
            said = error.read(_MOST_BYTES)
        raise HTTPError(request.full_url, error.code, error.msg, error.hdrs, io.BytesIO(said)) from None
