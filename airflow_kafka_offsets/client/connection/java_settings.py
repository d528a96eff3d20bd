"""Java settings: a connection's settings, translated to options of Spark's Kafka reader.

Spark reads Kafka through the Java client, which uses other keys; Spark adds the prefix ``kafka.``. What has no
counterpart in Java is refused by name. Files named by ``ssl.*.location`` must be on the executors too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_kafka_offsets.client.connection.settings import (
    DEFAULT_CLIENT_ID,
    KERBEROS,
    MSK_IAM,
    ClientSettings,
    SaslSettings,
    TlsSettings,
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
        settings = ClientSettings.from_config(config)
        plain = {
            "kafka.bootstrap.servers": ",".join(settings.bootstrap_servers),
            "kafka.security.protocol": settings.security_protocol,
        }
        secret: dict[str, str] = {}
        if settings.client_id != DEFAULT_CLIENT_ID:
            plain["kafka.client.id"] = settings.client_id
        if settings.sasl is not None:
            _add_sasl(settings.sasl, plain, secret)
        if settings.tls is not None:
            _add_tls(settings.tls, plain, secret)
        return cls(plain, secret)


def _add_sasl(sasl: SaslSettings, plain: dict[str, str], secret: dict[str, str]) -> None:
    plain["kafka.sasl.mechanism"] = sasl.mechanism
    if sasl.mechanism == MSK_IAM:
        # The Java classes come with software.amazon.msk:aws-msk-iam-auth. The credentials are the machine's own.
        plain["kafka.sasl.jaas.config"] = "software.amazon.msk.auth.iam.IAMLoginModule required;"
        plain["kafka.sasl.client.callback.handler.class"] = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    elif sasl.oauth is not None:
        _add_oauth(sasl, plain, secret)
    elif sasl.mechanism == KERBEROS:
        # The JAAS configuration is a file on each machine, as for every Java program at a Kerberos site.
        plain["kafka.sasl.kerberos.service.name"] = sasl.kerberos_service_name
    else:
        secret["kafka.sasl.jaas.config"] = (
            f"{_LOGIN_MODULES[sasl.mechanism]} required "
            f"username={jaas_quote(sasl.username or '')} password={jaas_quote(sasl.password or '')};"
        )


def _add_oauth(sasl: SaslSettings, plain: dict[str, str], secret: dict[str, str]) -> None:
    oauth, handler, module = sasl.oauth, sasl.java_login_handler, f"{_OAUTH}.OAuthBearerLoginModule required"
    assert oauth is not None
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


def _add_tls(tls: TlsSettings, plain: dict[str, str], secret: dict[str, str]) -> None:
    if not tls.verify_certificate:
        raise ConfigurationError(
            "enable.ssl.certificate.verification=false has no counterpart in Spark's Kafka client, which always checks "
            "the broker's certificate. Set ssl.ca.location to the certificate authority instead."
        )
    if not tls.verify_hostname:
        plain["kafka.ssl.endpoint.identification.algorithm"] = ""
    if tls.ca_location is not None:
        plain |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": tls.ca_location}
    if tls.certificate_location is None:
        return
    if tls.key_location not in (None, tls.certificate_location):
        raise ConfigurationError(
            "ssl.key.location and ssl.certificate.location name different files, but Spark's Kafka client reads key "
            "and certificate from one PEM file. Put the key in front of the certificates, and name that file in both."
        )
    plain |= {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": tls.certificate_location}
    if tls.key_password is not None:
        secret["kafka.ssl.key.password"] = tls.key_password
