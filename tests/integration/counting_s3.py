"""An S3 server that counts how often it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest

from dev import s3_server

_KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


class Counting:
    """The server, and what it was asked: method, path and query."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._server = s3_server.S3Application()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = "?".join(filter(None, (environ["PATH_INFO"], environ.get("QUERY_STRING"))))
        self.requests.append(f"{environ['REQUEST_METHOD']} {asked}")
        return self._server(environ, start_response)


def make_bucket(endpoint: str, bucket: str) -> None:
    """Make a bucket."""
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **_KEYS).create_bucket(Bucket=bucket)


def connection_to(endpoint: str) -> str:
    """Airflow's connection to the server, as its variable has it."""
    extra = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    return json.dumps({"conn_type": "aws", "login": "test", "password": "test", "extra": extra})


Count = Callable[[Callable[[], Any]], list[str]]
"""What something asks the store for."""


@pytest.fixture(scope="module")
def counting_server() -> Iterator[tuple[Counting, str]]:
    """A server, and its address."""
    counting = Counting()
    with s3_server.serving(counting) as endpoint:
        yield counting, endpoint


@pytest.fixture
def root(counting_server: tuple[Counting, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh root there. Airflow keeps what a connection's name has led to, so each server's has a name of its own."""
    _, endpoint = counting_server
    bucket, name = f"counted-{uuid4().hex[:8]}", f"counted_{endpoint.rpartition(':')[2]}"
    make_bucket(endpoint, bucket)
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", connection_to(endpoint))
    return f"s3://{name}@{bucket}"


@pytest.fixture
def count(counting_server: tuple[Counting, str], root: str) -> Count:
    """Counts while something runs, once there is a root."""
    counting, _ = counting_server

    def asked(call: Callable[[], Any]) -> list[str]:
        counting.requests.clear()
        call()
        return counting.requests.copy()

    return asked
