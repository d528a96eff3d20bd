"""An identity server on this machine: issues signed tokens for client credentials (RFC 6749, 4.4).

with TokenServer({"loader": "secret"}, folder, life_s=5) as server:
    server.endpoint   # where clients ask
    server.keys_file  # where brokers read the public key, in JSON
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from dev.ports import HOST

ISSUER, AUDIENCE = "dev", "kafka"
_KEY_ID = "one"


class TokenServer:
    """A context manager.

    :param clients: secret by client id, which becomes the subject of its tokens.
    :param folder: the folder for the public key.
    :param life_s: how long a token is valid, seconds.
    """

    def __init__(self, clients: Mapping[str, str], folder: Path, *, life_s: float = 300) -> None:
        self.clients = dict(clients)
        self.life_s = life_s
        self.given: list[str] = []
        """The clients that received tokens, in order."""
        self.scopes: list[str | None] = []
        self.fails_with: int | None = None
        """The HTTP status of every answer; None to work normally."""
        self.tells: dict[str, Any] = {}
        """Fields of answers, which replace the server's own; None removes a field."""
        self.keys_file = folder / "keys.json"
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        self.keys_file.write_text(json.dumps({"keys": [public | {"kid": _KEY_ID, "use": "sig", "alg": "RS256"}]}))
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if self.fails_with is not None:
            return self.fails_with, {"error": "temporarily_unavailable"}
        kind, _, known_as = authorization.partition(" ")
        client, _, secret = base64.b64decode(known_as).decode().partition(":")
        if kind != "Basic" or secret != self.clients.get(client):
            return 401, {"error": "invalid_client", "error_description": "Invalid client credentials"}
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        now = time.time()
        scope = form.get("scope", [None])[0]
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client, "iat": int(now), "exp": int(now + self.life_s)}
        token = jwt.encode(claims | {"scope": scope or "all"}, self._key, "RS256", headers={"kid": _KEY_ID})
        self.given.append(client)
        self.scopes.append(scope)
        fields = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.life_s)} | self.tells
        return 200, {name: value for name, value in fields.items() if value is not None}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
                status, fields = server._answer(self.headers.get("Authorization", ""), form)
                body = json.dumps(fields).encode()
                self.send_response(status)
                self.send_header("Location", server.endpoint)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
