"""How Hadoop spells a URI, and what a session lacks to reach a store, by what Hadoop says."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.spark.session.files import hadoop_uri, what_is_missing

NO_CREDENTIALS = (
    "java.nio.file.AccessDeniedException: s3a://b/k: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS "
    "Credentials provided by TemporaryAWSCredentialsProvider SimpleAWSCredentialsProvider "
    "EnvironmentVariableCredentialsProvider IAMInstanceCredentialsProvider : "
    "software.amazon.awssdk.core.exception.SdkClientException: Unable to load credentials from system settings. Access "
    "key must be specified either via environment variable (AWS_ACCESS_KEY_ID) or system property (aws.accessKeyId)"
)
"""Of S3A 3.4.1."""
OF_SPARK_CONNECT = (
    "(java.lang.RuntimeException) java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not "
    "found"
)


def test_credentials_are_told_with_where_they_go() -> None:
    said = what_is_missing("s3://b/k", NO_CREDENTIALS, "3.4.1")
    assert said is not None
    assert said.startswith("Spark's driver has no credentials for S3")
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY into the environment of the worker" in said


def test_the_version_of_a_spark_connect_servers_hadoop_is_not_known() -> None:
    said = what_is_missing("s3a://b/k", OF_SPARK_CONNECT, None)
    assert said is not None
    assert "add org.apache.hadoop:hadoop-aws:<version of its Hadoop> to packages=" in said


@pytest.mark.parametrize(
    "said",
    [
        "java.net.ConnectException: Call From a to b:9000 failed on connection exception: Connection refused",
        "java.nio.file.AccessDeniedException: s3a://b/k: getFileStatus: Access Denied (Status Code: 403)",
        "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class com.acme.CredentialsProvider not found",
    ],
)
def test_anything_else_lacks_nothing_that_is_known(said: str) -> None:
    assert what_is_missing("s3://b/k", said, "3.4.1") is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("s3://bucket/key/", "s3a://bucket/key"),
        ("s3a://bucket/key", "s3a://bucket/key"),
        ("s3://aws_default@bucket/key", "s3a://bucket/key"),
        ("gs://google_cloud_default@bucket/key", "gs://bucket/key"),
        ("hdfs://host:8020/key", "hdfs://host:8020/key"),
        ("abfss://lake@account.dfs.core.windows.net/x", "abfss://lake@account.dfs.core.windows.net/x"),
        ("file:///tmp/key", "file:///tmp/key"),
        ("/tmp/key/", "/tmp/key"),
    ],
)
def test_uris_are_spelt_as_hadoop_spells_them(given: str, expected: str) -> None:
    assert hadoop_uri(given) == expected
