"""A ledger's root on each store that the tests cover: a local folder, and a bucket of moto's S3 server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger
from tests.integration.ledger.loads import new_ledger


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where ledgers go, as a user would name it."""
    if request.param == "local":
        return (tmp_path / "ledgers").as_uri()
    endpoint = request.getfixturevalue("s3_endpoint")
    bucket = f"ledger-{uuid4().hex[:8]}"
    credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **credentials).create_bucket(Bucket=bucket)
    connection = {
        "conn_type": "aws",
        "login": "test",
        "password": "test",
        "extra": {"endpoint_url": endpoint, "region_name": "us-east-1"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER_S3", json.dumps(connection))
    return f"s3://ledger_s3@{bucket}/ledgers"


@pytest.fixture
def path(root: str) -> Callable[[str], ObjectStoragePath]:
    return lambda name: ObjectStoragePath(root) / name


@pytest.fixture
def ledger(root: str) -> Ledger:
    """A new ledger on each store."""
    return new_ledger(root)


@pytest.fixture
def local(tmp_path: Path) -> Ledger:
    """A new ledger on a local disk."""
    return new_ledger(tmp_path.as_uri())
