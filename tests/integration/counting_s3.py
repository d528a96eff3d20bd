"""An S3 server that counts how often it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import boto3

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
