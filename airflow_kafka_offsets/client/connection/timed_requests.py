"""HTTP requests with a time limit on the whole request. httpx only limits each read from the socket, and an answer may
arrive byte by byte.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from airflow_kafka_offsets.offsets.instants import duration_text

THREAD = "token endpoint"
"""Name of the threads."""
_MOST_BYTES = 1 << 20
"""How much of an answer is read, so that the server can't fill a triggerer's memory."""
_ENDS_S = 2.0
"""Ample time for a thread to end after its connection was cut. The next request waits for it."""
_ADDRESSES = 3
"""For how many addresses of one name there is time, if only the last of them answers."""


class TimedRequests:
    """Makes one request at a time, each in its own thread. None starts before the previous thread has ended, so that at
    most one thread hangs in something that can't be interrupted, such as a name look-up."""

    def __init__(self) -> None:
        self._thread: Thread | None = None

    def post(
        self, url: str, form: Mapping[str, str], login: tuple[str, str], context: ssl.SSLContext, timeout_s: float
    ) -> tuple[int, bytes]:
        """Status and body of the answer, up to a size limit. Follows no redirect: the secret goes to this address only.

        :raises TimeoutError: when it takes longer, or the previous request hasn't ended yet.
        :raises OSError: when there is no answer, or it isn't HTTP.
        """
        until_s = time.monotonic() + timeout_s
        if self._thread is not None:
            self._thread.join(min(_ENDS_S, timeout_s / 2))
            if self._thread.is_alive():
                raise TimeoutError(
                    "the previous request still hangs, perhaps because this machine's DNS doesn't answer"
                )
        line, answer = _Line(), Future[tuple[int, bytes]]()

        def settle() -> None:
            import httpx  # here: it takes a while, and few connections need it

            # The addresses of a name are tried one after the other: one that doesn't answer leaves time for the next.
            timeout = httpx.Timeout(timeout_s, connect=timeout_s / _ADDRESSES)
            try:
                with (
                    line,
                    httpx.Client(verify=context, timeout=timeout) as client,
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
            except (httpx.TransportError, httpx.InvalidURL, ValueError, ImportError) as error:
                # Also of a proxy in the environment that httpx doesn't know, or has no library for (SOCKS).
                answer.set_exception(OSError(str(error).removesuffix(".")))
            except BaseException as error:
                answer.set_exception(error)

        self._thread = Thread(target=settle, name=THREAD, daemon=True)
        self._thread.start()
        try:
            return answer.result(until_s - time.monotonic())
        except TimeoutError as error:
            line.cut()
            raise TimeoutError(str(error) or f"no full answer within {duration_text(round(timeout_s, 1))}") from None


class _Line:
    """The connection of one request. Another thread can cut it, whatever the request's own thread is waiting for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: list[socket.socket] = []
        self._is_cut = False

    def note(self, event: str, details: Mapping[str, Any]) -> None:
        """Keep the socket that httpx connects (its ``trace`` extension), from the start: a proxy may also be slow."""
        if event == "connection.connect_tcp.complete":
            with self._lock:
                # A second handle: TLS takes over the socket itself.
                self._held.append(details["return_value"].get_extra_info("socket").dup())
            if self._is_cut:
                self.cut()

    def cut(self) -> None:
        """Shut the connection down, which at once wakes a thread waiting for it."""
        with self._lock, suppress(OSError):  # it has already ended
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
