"""Which confs a prepared load may return."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.operators.prepare_load import _holds_a_secret


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.azure.account.oauth2.client.secret.lake.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.fixed.token.lake.dfs.core.windows.net",
        "spark.hadoop.google.cloud.auth.service.account.private.key",
        "spark.sql.catalog.lake.token",
        "spark.sql.catalog.lake.s3.secret-access-key",
        "spark.kubernetes.authenticate.submission.oauthToken",
        "spark.ssl.keyPassword",
    ],
)
def test_one_that_holds_a_secret_is_refused(name: str) -> None:
    assert _holds_a_secret(name, "x")
    assert not _holds_a_secret(name, "{{secrets/scope/key}}"), "it only names one"


@pytest.mark.parametrize(
    "name",
    [
        "spark.executor.memory",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.hadoop.fs.s3a.security.credential.provider.path",
        "spark.kubernetes.driver.secretKeyRef.KAFKA_OFFSETS_SECRETS",
        "spark.kubernetes.driver.secrets.kafka",
        "spark.redaction.regex",
        "spark.kafkaOffsets.kafka.sasl.oauthbearer.token.endpoint.url",
        "spark.sql.catalog.lake.io-impl",
    ],
)
def test_one_that_says_where_a_secret_is_passes(name: str) -> None:
    assert not _holds_a_secret(name, "x")


def test_the_login_of_a_registry_is_one_however_it_is_written() -> None:
    assert _holds_a_secret("spark.kafkaOffsets.registry.authorization", "{{secrets/scope/key}}")
