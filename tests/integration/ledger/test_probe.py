"""A store is believed once it has shown that it lets one of two writers alone create a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from airflow.sdk import ObjectStoragePath
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from airflow_kafka_offsets.errors import ExclusiveCreateError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import names_below
from airflow_kafka_offsets.offsets.specs import IsolationLevel

CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


@pytest.fixture
def careless_endpoint() -> Iterator[str]:
    """A server that speaks S3 and has never heard of ``If-None-Match``."""
    s3 = DomainDispatcherApplication(create_backend_app)

    def careless(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return s3(environ, start_response)

    server = make_server("127.0.0.1", 0, careless, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(10)


@pytest.fixture
def careless_root(careless_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    bucket = f"ledger-{uuid4().hex[:8]}"
    boto3.client("s3", endpoint_url=careless_endpoint, region_name="us-east-1", **CREDENTIALS).create_bucket(
        Bucket=bucket
    )
    extra = {"endpoint_url": careless_endpoint, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CARELESS", json.dumps(connection))
    return f"s3://careless@{bucket}/ledgers"


def opened(root: str) -> Ledger:
    ledger = Ledger(ObjectStoragePath(root), "loads")
    ledger.open(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return ledger


def test_a_store_that_lets_both_writers_win_is_refused_by_its_endpoint(
    careless_root: str, careless_endpoint: str
) -> None:
    with pytest.raises(ExclusiveCreateError, match=rf"s3.*{careless_endpoint}.*If-None-Match.*Update that server"):
        opened(careless_root)
    assert ObjectStoragePath(careless_root).fs.find(ObjectStoragePath(careless_root).path) == []


def test_a_store_that_keeps_the_promise_holds_nothing_of_the_probe(root: str) -> None:
    ledger = opened(root)
    assert names_below(ledger.folder) == ["pipeline.json"]
    assert [each for each in ledger.folder.fs.find(ledger.folder.path) if "probe" in each] == []


def test_it_is_asked_once_a_ledger(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(root)

    def asked(*_: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr("airflow_kafka_offsets.ledger.ledger.require_exclusive_creation", asked)
    opened(root)
