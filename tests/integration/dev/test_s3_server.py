"""The S3 server of tests answers as moto does by itself, but takes one conditional put of many."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from dev import s3_server

NAMES = [
    f"{folder}{number:02}" for folder in ("a/", "a/b/", "a/b c/", "a/b%/ü", "b/", "", "c/&<") for number in range(7)
]


def client_of(endpoint: str) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    config = Config(max_pool_connections=20)
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config, **keys)


@pytest.fixture(scope="module")
def ours() -> Iterator[Any]:
    with s3_server.serving() as endpoint:
        yield client_of(endpoint)


@pytest.fixture(scope="module")
def motos() -> Iterator[Any]:
    """Moto's own server, over the same buckets: they are the process's."""
    with s3_server.serving(DomainDispatcherApplication(create_backend_app)) as endpoint:
        yield client_of(endpoint)


@pytest.fixture(scope="module")
def bucket(ours: Any) -> str:
    ours.create_bucket(Bucket="lists")
    for each in random.Random(1).sample(NAMES, len(NAMES)):
        ours.put_object(Bucket="lists", Key=each, Body=each.encode())
    return "lists"


def listed(client: Any, bucket: str, **how: Any) -> tuple[list[tuple[str, int, str]], list[str], list[int]]:
    """Names with sizes and tags, folders, and how much each page has."""
    names, folders, counts, token = [], [], [], {}
    while True:
        page = client.list_objects_v2(Bucket=bucket, **how, **token)
        names += [(each["Key"], each["Size"], each["ETag"]) for each in page.get("Contents", [])]
        folders += [each["Prefix"] for each in page.get("CommonPrefixes", [])]
        counts.append(page["KeyCount"])
        if not page["IsTruncated"]:
            return names, folders, counts
        token = {"ContinuationToken": page["NextContinuationToken"]}


class TestLists:
    @pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b%/", "c/&", "nothing"])
    @pytest.mark.parametrize("delimiter", [None, "/"])
    @pytest.mark.parametrize("most", [1, 3, 1000])
    def test_are_motos(self, ours: Any, motos: Any, bucket: str, prefix: str, delimiter: str | None, most: int) -> None:
        how = {"Prefix": prefix, "MaxKeys": most} | ({"Delimiter": delimiter} if delimiter else {})
        assert listed(ours, bucket, **how) == listed(motos, bucket, **how)

    def test_follow_what_is_written_and_deleted(self, ours: Any, motos: Any, bucket: str) -> None:
        listed(ours, bucket)
        ours.delete_object(Bucket=bucket, Key="a/03")
        ours.put_object(Bucket=bucket, Key="a/031", Body=b"new")
        ours.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": each} for each in ("a/04", "a/05")]})
        ours.copy_object(Bucket=bucket, Key="a/06", CopySource={"Bucket": bucket, "Key": "a/031"})
        assert listed(ours, bucket) == listed(motos, bucket)
        assert ("a/06", 3) in [each[:2] for each in listed(ours, bucket)[0]]

    def test_of_a_bucket_that_is_not_there_are_an_error(self, ours: Any) -> None:
        with pytest.raises(ClientError, match="NoSuchBucket"):
            ours.list_objects_v2(Bucket="never")
