"""Amazon MSK with IAM: what is sent is what AWS's own library would sign, and what is missing is named."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from kafka.net.sasl.msk import AwsMskIamClient

from airflow_kafka_offsets.client.connection.kafka_python import MskIam
from airflow_kafka_offsets.client.connection.logins import require_libraries
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.errors import ConfigurationError

HOST, REGION = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com", "eu-west-1"
KEYS = {"bootstrap.servers": f"{HOST}:9098", "security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}


@pytest.mark.parametrize("token", [None, "t0ken/+="])
def test_the_signature_is_the_one_that_aws_makes(token: str | None) -> None:
    asked = AWSRequest("GET", f"https://{HOST}/?Action=kafka-cluster%3AConnect")
    SigV4QueryAuth(Credentials("AK", "SK", token), "kafka-cluster", REGION, expires=900).add_auth(asked)
    signed = {name: values[0] for name, values in parse_qs(urlsplit(asked.url).query).items()}
    client = AwsMskIamClient(HOST, "AK", "SK", REGION, token)
    client.timestamp, client.datestamp = signed["X-Amz-Date"], signed["X-Amz-Date"][:8]
    sent = json.loads(client.first_message())
    assert sent["x-amz-signature"] == signed["X-Amz-Signature"]
    assert sent["x-amz-credential"] == signed["X-Amz-Credential"]


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, REGION),
        ("boot-abc.c2.kafka-serverless.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("kafka.internal.example.com", "us-west-2"),
    ],
)
def test_the_region_is_the_one_of_the_brokers_name(host: str, region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker may be in another one; a private name tells none."""
    for name, value in {"DEFAULT_REGION": "us-west-2", "ACCESS_KEY_ID": "AK", "SECRET_ACCESS_KEY": "SK"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    signer = MskIam(host=host, security_protocol="SASL_SSL")
    assert json.loads(signer.auth_bytes())["x-amz-credential"].split("/")[2] == region


class TestWhatIsMissing:
    @pytest.fixture(autouse=True)
    def _nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)

    def test_region_and_credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = ClientSettings.from_config(KEYS)
        private = ClientSettings.from_config(KEYS | {"bootstrap.servers": "kafka.internal.example.com:9098"})
        with pytest.raises(ConfigurationError, match=r"\(kafka\.internal.*don't contain: set AWS_DEFAULT_REGION"):
            require_libraries(private.sasl, private.bootstrap_servers)
        with pytest.raises(ConfigurationError, match="has none: no role"):
            require_libraries(settings.sasl, settings.bootstrap_servers)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
        require_libraries(settings.sasl, settings.bootstrap_servers)
