"""Java settings: a connection's librdkafka keys, translated to options of Spark's Kafka reader.

Spark reads Kafka through the Java client, which uses different keys; Spark adds the prefix ``kafka.``. A key without a
counterpart in Java is refused by name. Files named by ``ssl.*.location`` must be on the executors too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_kafka_offsets.client.connection.oauth_tokens import OAuthSettings
from airflow_kafka_offsets.client.connection.settings import (
    KERBEROS,
    MSK_IAM,
    bootstrap_servers,
    known_keys,
    sasl_settings,
    security_protocol,
    verifies_certificate,
    verifies_hostname,
)
from airflow_kafka_offsets.errors import ConfigurationError

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOKEN_ENDPOINT = "kafka.sasl.oauthbearer.token.endpoint.url"
"""The option for the URL where Java gets tokens. From client 4.0 on, a system property of each Java process must allow
the URL (CVE-2025-27817): :data:`ALLOWED_URLS`."""
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """Options of Spark's Kafka reader.

    :param plain: options that may appear in a configuration or log.
    :param secret: options that may not: passwords, and the JAAS line that contains one.
    """

    plain: Mapping[str, str]
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> JavaSettings:
        """Translate librdkafka-style keys. Timeouts are left out: they apply to this package's own requests.

        :raises ConfigurationError: naming the key that is missing, unknown, or has no counterpart in Java.
        """
        keys = known_keys(config)
        protocol = security_protocol(keys)
        plain = {
            "kafka.bootstrap.servers": ",".join(bootstrap_servers(keys)),
            "kafka.security.protocol": protocol,
        }
        secret: dict[str, str] = {}
        if "client.id" in keys:
            plain["kafka.client.id"] = keys["client.id"]
        if protocol.startswith("SASL"):
            _add_sasl(keys, plain, secret)
        if protocol.endswith("SSL"):
            _add_tls(keys, plain, secret)
        return cls(plain, secret)


def _add_sasl(keys: Mapping[str, str], plain: dict[str, str], secret: dict[str, str]) -> None:
    sasl = sasl_settings(keys)
    plain["kafka.sasl.mechanism"] = sasl.mechanism
    if sasl.mechanism == MSK_IAM:
        # The Java classes come with software.amazon.msk:aws-msk-iam-auth. The credentials are the machine's own.
        plain["kafka.sasl.jaas.config"] = "software.amazon.msk.auth.iam.IAMLoginModule required;"
        plain["kafka.sasl.client.callback.handler.class"] = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        return
    if sasl.oauth is not None:
        _add_oauth(keys, sasl.oauth, plain, secret)
        return
    if sasl.mechanism == KERBEROS:
        # The JAAS configuration is a file on each machine, as for every Java program at a Kerberos site.
        plain["kafka.sasl.kerberos.service.name"] = sasl.kerberos_service_name
        return
    assert sasl.username is not None and sasl.password is not None
    secret["kafka.sasl.jaas.config"] = (
        f"{_LOGIN_MODULES[sasl.mechanism]} required "
        f"username={jaas_quote(sasl.username)} password={jaas_quote(sasl.password)};"
    )


def _add_oauth(keys: Mapping[str, str], oauth: OAuthSettings, plain: dict[str, str], secret: dict[str, str]) -> None:
    handler, module = keys.get("sasl.login.callback.handler.class"), f"{_OAUTH}.OAuthBearerLoginModule required"
    if oauth.endpoint is None and handler is None:
        raise ConfigurationError(
            "Spark's Kafka client runs in Java, and can't call oauth_cb. Set sasl.oauthbearer.method=oidc and its "
            "keys, or name a Java class that gets tokens in sasl.login.callback.handler.class."
        )
    plain["kafka.sasl.login.callback.handler.class"] = handler or f"{_OAUTH}.OAuthBearerLoginCallbackHandler"
    if oauth.endpoint is None:
        plain["kafka.sasl.jaas.config"] = f"{module};"
        return
    plain[TOKEN_ENDPOINT] = oauth.endpoint
    options = {"clientId": oauth.client_id, "clientSecret": oauth.client_secret, "scope": oauth.scope}
    options |= {f"extension_{name}": value for name, value in oauth.extensions.items()}
    if oauth.ca_location is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": oauth.ca_location}
    words = [f"{name}={jaas_quote(value)}" for name, value in options.items() if value is not None]
    secret["kafka.sasl.jaas.config"] = " ".join([module, *words]) + ";"


def jaas_quote(text: str) -> str:
    """A value in a JAAS line, quoted as Kafka's ``JaasConfig`` reads it (Java's ``StreamTokenizer``)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _add_tls(keys: Mapping[str, str], plain: dict[str, str], secret: dict[str, str]) -> None:
    if not verifies_certificate(keys):
        raise ConfigurationError(
            "enable.ssl.certificate.verification=false has no counterpart in Spark's Kafka client, which always checks "
            "the broker's certificate. Set ssl.ca.location to the certificate authority instead."
        )
    if not verifies_hostname(keys):
        plain["kafka.ssl.endpoint.identification.algorithm"] = ""
    if "ssl.ca.location" in keys:
        plain["kafka.ssl.truststore.type"] = "PEM"
        plain["kafka.ssl.truststore.location"] = keys["ssl.ca.location"]
    if "ssl.certificate.location" in keys:
        _add_client_certificate(keys, plain, secret)


def _add_client_certificate(keys: Mapping[str, str], plain: dict[str, str], secret: dict[str, str]) -> None:
    location = keys["ssl.certificate.location"]
    if keys.get("ssl.key.location", location) != location:
        raise ConfigurationError(
            "ssl.key.location and ssl.certificate.location name different files, but Spark's Kafka client reads key "
            "and certificate from one PEM file. Put the key in front of the certificates, and name that file in both."
        )
    plain["kafka.ssl.keystore.type"] = "PEM"
    plain["kafka.ssl.keystore.location"] = location
    if "ssl.key.password" in keys:
        secret["kafka.ssl.key.password"] = keys["ssl.key.password"]
