"""A store is believed once it has shown that it lets one of two writers alone create a file."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from uuid import uuid4

import boto3
import pytest
from airflow.sdk import ObjectStoragePath
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from airflow_kafka_offsets.errors import ExclusiveCreateError, StoreFailedError
from airflow_kafka_offsets.ledger import storage
from airflow_kafka_offsets.ledger.entries import Snapshotted
from airflow_kafka_offsets.ledger.storage import LedgerPath, create_exclusive
from tests.integration.ledger.loads import new_ledger

CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


class Watched:
    """A server that speaks S3, and what is put there.

    :param careless: it has never heard of ``If-None-Match``.
    :ivar puts: how many were asked for, buckets included.
    :ivar denied: which of them are answered by an error that has nothing to do with a condition.
    :ivar conflicts: how many of the next ones are answered by "somebody else is putting it right now".
    :ivar lost: how many of the next ones are done, and reported as failed.
    """

    def __init__(self, *, careless: bool) -> None:
        self._s3 = DomainDispatcherApplication(create_backend_app)
        self._careless = careless
        self.endpoint = ""
        self.puts = 0
        self.denied: set[int] = set()
        self.conflicts = self.lost = 0
        self.put_at_s: list[float] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if self._careless:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        self.puts += environ["REQUEST_METHOD"] == "PUT"
        if environ["REQUEST_METHOD"] == "PUT":
            self.put_at_s.append(time.monotonic())
        if environ["REQUEST_METHOD"] == "PUT" and self.puts in self.denied:
            return self._refuse(environ, start_response, "403 Forbidden", "AccessDenied")
        if environ["REQUEST_METHOD"] == "PUT" and self.conflicts:
            self.conflicts -= 1
            return self._refuse(environ, start_response, "409 Conflict", "ConditionalRequestConflict")
        if environ["REQUEST_METHOD"] == "PUT" and self.lost:
            self.lost -= 1
            list(self._s3(environ, lambda *_: None))  # which has read the body: whoever reads on waits for ever
            return self._answer(start_response, "503 Service Unavailable", "SlowDown")
        return self._s3(environ, start_response)

    def _refuse(self, environ: dict[str, Any], start_response: Callable[..., Any], status: str, code: str) -> Any:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        return self._answer(start_response, status, code)

    def _answer(self, start_response: Callable[..., Any], status: str, code: str) -> Any:
        start_response(status, [("Content-Type", "application/xml")])
        return [f"<Error><Code>{code}</Code><Message>Not now</Message></Error>".encode()]


@contextmanager
def serving(s3: Watched) -> Iterator[Watched]:
    server = make_server("127.0.0.1", 0, s3, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    s3.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield s3
    finally:
        server.shutdown()
        thread.join(10)


@pytest.fixture
def careless() -> Iterator[Watched]:
    with serving(Watched(careless=True)) as s3:
        yield s3


@pytest.fixture
def careful() -> Iterator[Watched]:
    with serving(Watched(careless=False)) as s3:
        yield s3


def root_on(s3: Watched, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where ledgers go in a new bucket."""
    bucket = f"ledger-{uuid4().hex[:8]}"
    boto3.client("s3", endpoint_url=s3.endpoint, region_name="us-east-1", **CREDENTIALS).create_bucket(Bucket=bucket)
    extra = {"endpoint_url": s3.endpoint, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    name = f"s3_{bucket[-8:]}"
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    return f"s3://{name}@{bucket}/ledgers"


def test_a_store_that_lets_both_writers_win_is_refused_by_its_endpoint(
    careless: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = root_on(careless, monkeypatch)
    with pytest.raises(ExclusiveCreateError, match=rf"s3.*{careless.endpoint}.*If-None-Match.*Update that server"):
        new_ledger(root)
    assert ObjectStoragePath(root).fs.find(ObjectStoragePath(root).path) == []


def test_an_error_is_no_proof_that_a_store_keeps_the_promise(
    careless: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second put of the probe fails for another reason, and the first one's content stands."""
    root = root_on(careless, monkeypatch)
    careless.denied = {careless.puts + 2}
    with pytest.raises(PermissionError, match="Not now"):
        new_ledger(root)
    assert ObjectStoragePath(root).fs.find(ObjectStoragePath(root).path) == []
    with pytest.raises(ExclusiveCreateError):
        new_ledger(root)


def test_a_store_that_keeps_the_promise_holds_nothing_of_the_probe(root: str) -> None:
    ledger = new_ledger(root)
    assert ledger.files.names("log/00000") == ["00000001.json"]
    assert [each for each in ledger.folder.fs.find(ledger.folder.path) if "probe" in each] == []


def test_it_is_asked_once_a_ledger(careful: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    root = root_on(careful, monkeypatch)
    before = careful.puts
    new_ledger(root)
    assert careful.puts == before + 3  # two of the probe, and the first commit
    new_ledger(root)
    assert careful.puts == before + 3


class TestConflict:
    """S3's answer to a put while another put of that name is in progress: try again."""

    def test_that_passes_is_waited_out(self, careful: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
        path = LedgerPath.of(ObjectStoragePath(root_on(careful, monkeypatch))) / "one"
        careful.conflicts = 3
        assert create_exclusive(path, b"mine")
        assert careful.conflicts == 0

    def test_that_stays_is_asked_about_a_few_times_with_longer_and_longer_pauses(
        self, careful: Watched, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(storage, "_MOST_TRIES", 7)
        path = LedgerPath.of(ObjectStoragePath(root_on(careful, monkeypatch))) / "one"
        careful.conflicts, careful.put_at_s = 1_000, []
        with pytest.raises(
            StoreFailedError, match=r"couldn't be created in 7 tries.*somebody else is creating"
        ) as failed:
            create_exclusive(path, b"mine")
        assert failed.value.retriable
        pauses_s = [later - earlier for earlier, later in pairwise(careful.put_at_s)]
        assert len(pauses_s) == 6
        assert all(pause_s >= 0.005 * 2**number for number, pause_s in enumerate(pauses_s, 1))


def test_a_commit_that_was_stored_and_reported_as_failed_is_ones_own(
    careful: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks again, and is told that the name is taken: by itself."""
    ledger = new_ledger(root_on(careful, monkeypatch))
    careful.lost = 1
    number = ledger.change(lambda state: [Snapshotted(1, "0" * 64)] if state.number < 2 else ())
    assert (number, careful.lost) == (2, 0)
    assert ledger.files.names("log/00000") == ["00000001.json", "00000002.json"]
