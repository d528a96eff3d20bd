"""A gate in front of a schema registry: it lets through who logs in, and can add what a newer registry answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import urlopen

from dev.ports import HOST
from tests.patience import PATIENCE_S

_REFUSED = json.dumps({"error_code": 40101, "message": "Unauthorized"}).encode()


class RegistryGate:
    """The gate: a context manager.

    :param behind: address of the registry.
    :param authorization: value of the header that lets through; None for no login.
    :param guids: by id, the GUIDs of schemas, which this registry doesn't give them.
    """

    def __init__(self, behind: str, authorization: str | None = None, guids: Mapping[int, str] | None = None) -> None:
        self.behind = behind
        self.authorization = authorization
        self.guids = dict(guids or {})
        self.asked: list[str] = []
        """The paths of all requests."""
        self._server = ThreadingHTTPServer((HOST, 0), type("Handler", (_Handler,), {"gate": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    gate: RegistryGate

    def do_GET(self) -> None:
        gate = self.gate
        gate.asked.append(self.path)
        if gate.authorization not in (None, self.headers.get("Authorization")):
            self._answer(401, _REFUSED)
            return
        try:
            with urlopen(gate.behind + self.path, timeout=PATIENCE_S) as answer:
                self._answer(answer.status, self._with_guid(answer.read()))
        except HTTPError as error:
            with error:
                self._answer(error.code, error.read())

    def _with_guid(self, content: bytes) -> bytes:
        fields: Any = json.loads(content)
        if isinstance(fields, dict) and fields.get("id") in self.gate.guids:
            fields["guid"] = self.gate.guids[fields["id"]]
        return json.dumps(fields).encode()

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Be quiet."""
