"""A schema registry that answers wrongly, late, elsewhere, or not at all; and one behind TLS."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError, RegistryError, RegistryUnreachableError
from airflow_kafka_offsets.spark.values import registry
from airflow_kafka_offsets.spark.values.registry import RegistrySettings, SchemaRegistry
from airflow_kafka_offsets.spark.values.subjects import Subjects, subject_schemas
from dev.certificates import make_certificates
from dev.ports import HOST
from tests.patience import wait_until

Answer = tuple[int, bytes] | tuple[int, bytes, str]
"""A status, a body, and the header Location."""
SECRET = "Bearer hunter2"
UNKNOWN = json.dumps({"error_code": 40401, "message": "Subject 's' not found."}).encode()


@contextmanager
def answering(answer: Callable[[str], Answer], certificate: Path | None = None) -> Iterator[tuple[str, list[Any]]]:
    """A server whose answers a function of the path gives; its address, and the headers of what it was asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers)
            status, body, *location = answer(self.path)
            with suppress(ConnectionError):  # as when the other side has given up
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for place in location:
                    self.send_header("Location", place)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http{'' if certificate is None else 's'}://{HOST}:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def always(status: int, body: bytes, *location: str) -> AbstractContextManager[tuple[str, list[Any]]]:
    return answering(lambda _: (status, body, *location))  # type: ignore[return-value]


def fetch(url: str, **settings: Any) -> Any:
    found = SchemaRegistry(RegistrySettings(url, **settings))
    return subject_schemas(found, "AVRO", Subjects(("s",), ("s",)), None, None)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PAUSE_S", 0.0)


@pytest.mark.parametrize(
    ("status", "body", "said", "requests"),
    [
        (200, b"<html>Sign in</html>", "is no schema registry: its answer isn't the JSON of one", 1),
        (200, b'{"status": "ok"}', "is no schema registry", 1),
        (200, b'[{"version": 1}]', "is no schema registry", 1),
        (200, b"\xff", "is no schema registry", 1),
        (404, UNKNOWN, "has no subject s. Name the one", 1),
        (404, b"<html>Not\nFound</html>", "HTTP 404: <html>Not Found</html>. Is that address its API?", 1),
        (401, b"", r"refused the login \(HTTP 401\): Unauthorized. Check the login", 1),
        (403, b"no", r"refused the login \(HTTP 403\): no", 1),
        (500, b"down", r"can't answer now \(HTTP 500\): down", 3),
        (429, b"", r"can't answer now \(HTTP 429\): Too Many Requests", 3),
    ],
)
def test_what_it_says_is_one_line_without_the_login(status: int, body: bytes, said: str, requests: int) -> None:
    with always(status, body) as (url, asked), pytest.raises(RegistryError, match=said) as failed:
        fetch(url, authorization=SECRET)
    assert len(asked) == requests
    assert failed.value.retriable == (requests > 1)
    assert "\n" not in str(failed.value)
    assert "hunter2" not in str(failed.value)


def test_a_redirect_is_not_followed_as_the_login_would_go_along() -> None:
    with always(200, b"[1]") as (elsewhere, reached), always(302, b"", f"{elsewhere}/") as (url, _):
        with pytest.raises(RegistryError, match=r"is elsewhere: it redirects \(HTTP 302\)"):
            fetch(url, authorization=SECRET)
        assert not reached


def test_one_that_is_slow_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TIMEOUT_S", 0.1)
    over = threading.Event()

    def late(_: str) -> Answer:
        over.wait(60)
        return 200, b"[1]"

    with answering(late) as (url, asked):
        with pytest.raises(RegistryUnreachableError, match=r"doesn't answer: .*timed out"):
            fetch(url)
        wait_until(lambda: len(asked) == 3, "the server has read what it was asked by somebody who has given up")
        over.set()


def test_a_version_that_is_registered_meanwhile_is_left_for_the_next_window() -> None:
    """The two lists of versions, with and without those that were deleted, are two requests."""
    schema = json.dumps({"id": 7, "schema": '"string"'}).encode()
    answers = {"/subjects/s/versions?deleted=true": b"[1]", "/subjects/s/versions": b"[1, 2]"}
    with answering(lambda path: (200, answers.get(path, schema))) as (url, _):
        assert fetch(url).reader.version == 1


class TestTls:
    def test_the_authority_of_the_connection_is_trusted_and_the_token_sent(self, tmp_path: Path) -> None:
        files = make_certificates(tmp_path)
        answer = json.dumps({"id": 7, "schema": '"string"'}).encode()
        with answering(lambda path: (200, b"[1]" if "/1" not in path else answer), files.broker) as (url, asked):
            assert fetch(url, authorization=SECRET, ca_location=str(files.ca)).reader.id == 7
            assert {headers["Authorization"] for headers in asked} == {SECRET}
            assert fetch(url, verify=False).reader.id == 7
            with pytest.raises(RegistryError, match=r"certificate that this driver doesn't trust: .*verify") as failed:
                fetch(url)
        assert not failed.value.retriable

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"can't be read from .*nothing.pem on the driver: .*No such file"):
            fetch("https://127.0.0.1:1", ca_location=str(tmp_path / "nothing.pem"))


@pytest.mark.parametrize("authorization", ["Bearer hunter2\n", "Bearer hunter2\r\nHost: elsewhere", "Bearer hünter2"])
def test_a_login_that_no_header_can_have_is_refused_unseen(authorization: str) -> None:
    """The standard library's own error would quote it."""
    with pytest.raises(ConfigurationError, match="such as a line break at the end") as refused:
        RegistrySettings.read({"registry.url": "https://registry", "registry.authorization": authorization})
    assert "nter2" not in str(refused.value)
