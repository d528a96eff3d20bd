"""Requests over HTTP that end in time, whatever comes back: httpx's time limits are for each read of a socket, and an
answer may come byte by byte.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

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

    def post(
        self, url: str, form: Mapping[str, str], login: tuple[str, str], context: ssl.SSLContext, timeout_s: float
    ) -> tuple[int, bytes]:
        """Status and body of what is answered, to a limit. A secret goes to the address that is named, and no redirect
        is followed.

        :raises TimeoutError: it takes longer, or the last one hasn't ended yet.
        :raises OSError: there is no answer, or it isn't HTTP.
        """
        if self._thread is not None and self._thread.is_alive():
            raise TimeoutError("the last look-up hasn't ended, as where this machine's name service doesn't answer")
        line, answer = _Line(), Future[tuple[int, bytes]]()

        def settle() -> None:
            import httpx  # here: it takes a while, and few connections need it

            try:
                with (
                    line,
                    httpx.Client(verify=context, timeout=timeout_s) as client,
                    client.stream(
                        "POST",
                        url,
                        data=form,
                        auth=login,
                        headers={"Accept": "application/json", "Accept-Encoding": "identity"},
                        extensions={"trace": line.note},
                    ) as response,
                ):
                    body = b""
                    for piece in response.iter_raw():
                        body += piece
                        if len(body) >= _MOST_BYTES:
                            break
                    answer.set_result((response.status_code, body))
            except (httpx.TransportError, httpx.InvalidURL) as error:
                answer.set_exception(OSError(str(error).removesuffix(".")))
            except BaseException as error:
                answer.set_exception(error)

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

    def note(self, event: str, details: Mapping[str, Any]) -> None:
        """Hold what httpx has connected to (its ``trace`` extension), from its first byte on: a proxy may drip too."""
        if event == "connection.connect_tcp.complete":
            with self._lock:
                # A second handle: TLS takes the socket itself away.
                self._held.append(details["return_value"].get_extra_info("socket").dup())
            if self._is_cut:
                self.cut()

    def cut(self) -> None:
        """Whoever waits for it goes on at once, and finds it closed."""
        with self._lock, suppress(OSError):  # it has ended by itself
            self._is_cut = True
            for held in self._held:
                held.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for held in self._held:
                held.close()
            self._held.clear()
