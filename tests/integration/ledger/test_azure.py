"""Azure: adlfs's own client, before a server that speaks as much of blob storage as exclusive creation takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from upath import UPath

from airflow_kafka_offsets.errors import ExclusiveCreateError
from airflow_kafka_offsets.ledger.storage import LedgerPath, create_exclusive, read, require_exclusive_creation

KEY = "a2V5"


class Blobs(BaseHTTPRequestHandler):
    """Put, get and delete blobs.

    :cvar careful: whether ``If-None-Match`` is heard of.
    :cvar may_delete: whether the client may.
    """

    protocol_version = "HTTP/1.1"
    careful = True
    may_delete = True
    stored: dict[str, bytes] = {}
    lock = threading.Lock()

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            taken = self.careful and self.headers["If-None-Match"] == "*" and self.path in self.stored
            if not taken:
                self.stored[self.path] = content
        self._answer(*((409, "BlobAlreadyExists") if taken else (201, "")))

    def do_GET(self) -> None:
        if self.path not in self.stored:
            self._answer(404, "BlobNotFound")
            return
        content = self.stored[self.path]
        self._answer(206, "", content, {"Content-Range": f"bytes 0-{len(content) - 1}/{len(content)}"})

    def do_DELETE(self) -> None:
        if not self.may_delete:
            self._answer(403, "AuthorizationPermissionMismatch")
            return
        there = self.stored.pop(self.path, None) is not None
        self._answer(*((202, "") if there else (404, "BlobNotFound")))

    def _answer(self, status: int, code: str, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        if code:
            content = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>said so</Message></Error>".encode()
        self.send_response(status)
        common = {"ETag": '"0x1"', "Last-Modified": "Tue, 24 Nov 2026 06:00:00 GMT", "x-ms-blob-type": "BlockBlob"}
        code_header = {"x-ms-error-code": code, "Content-Type": "application/xml"} if code else {}
        for name, value in (common | code_header | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def blobs() -> Iterator[type[Blobs]]:
    class Own(Blobs):
        stored: dict[str, bytes] = {}

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        Own.port = server.server_port  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Own
        server.shutdown()


@pytest.fixture
def folder(blobs: Any) -> LedgerPath:
    endpoint = f"http://127.0.0.1:{blobs.port}/account"
    connection = f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={KEY};BlobEndpoint={endpoint};"
    return LedgerPath.of(UPath("abfs://lake/ledgers", connection_string=connection))


def test_a_ledger_can_be_made(folder: LedgerPath, blobs: type[Blobs]) -> None:
    require_exclusive_creation(folder)
    assert blobs.stored == {}


def test_who_may_create_need_not_be_allowed_to_delete(folder: LedgerPath, blobs: type[Blobs]) -> None:
    blobs.may_delete = False
    require_exclusive_creation(folder)
    (probe,) = blobs.stored
    assert "/.probe-" in probe  # which no list of the ledger's files has


def test_a_store_that_ignores_the_condition_is_refused(folder: LedgerPath, blobs: type[Blobs]) -> None:
    blobs.careful = False
    with pytest.raises(ExclusiveCreateError, match=r"abfs.*let two writers create the same file"):
        require_exclusive_creation(folder)
    assert blobs.stored == {}


def test_one_of_many_writers_wins(folder: LedgerPath) -> None:
    """Whatever another writer has under way of the same file."""
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: create_exclusive(folder / "one", str(number).encode()), range(40)))
    assert won.count(True) == 1
    assert read(folder / "one") == str(won.index(True)).encode()
    assert read(folder / "none") is None
