"""Client settings: how to reach a cluster, from the librdkafka keys in Airflow's Kafka connections.

Consumers and producers share the connection, so keys that concern only them are accepted and have no effect here. Any
other key is refused by name, so that a misspelt ``ssl.ca.loction`` isn't silently ignored.
"""

from __future__ import annotations

import difflib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from airflow_kafka_offsets.client.connection.oauth_tokens import OAuthSettings
from airflow_kafka_offsets.errors import ConfigurationError

KERBEROS = "GSSAPI"
OAUTHBEARER = "OAUTHBEARER"
MSK_IAM = "AWS_MSK_IAM"
"""Amazon's own mechanism (MSK with IAM): logins are signed with the client's AWS credentials."""
DEFAULT_CLIENT_ID = "airflow-kafka-offsets"

_ALIASES = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}

# Each is one string of words, because a hundred quoted strings, one per line, would dominate this file.
USED_KEYS = frozenset(
    """
    bootstrap.servers client.id security.protocol socket.timeout.ms request.timeout.ms
    sasl.mechanism sasl.username sasl.password sasl.kerberos.service.name
    oauth_cb sasl.oauthbearer.config sasl.oauthbearer.method sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.extensions https.ca.location
    sasl.login.callback.handler.class
    ssl.ca.location ssl.certificate.location ssl.key.location ssl.key.password
    ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
    """.split()  # noqa: SIM905
)

IGNORED_KEYS = frozenset(
    """
    group.id group.instance.id group.protocol group.remote.assignor partition.assignment.strategy
    session.timeout.ms heartbeat.interval.ms max.poll.interval.ms max.poll.records coordinator.query.interval.ms
    auto.offset.reset enable.auto.commit auto.commit.interval.ms enable.auto.offset.store enable.partition.eof
    isolation.level fetch.min.bytes fetch.max.bytes fetch.message.max.bytes max.partition.fetch.bytes fetch.wait.max.ms
    fetch.error.backoff.ms fetch.queue.backoff.ms queued.min.messages queued.max.messages.kbytes check.crcs
    allow.auto.create.topics client.rack
    acks request.required.acks compression.type compression.codec compression.level linger.ms queue.buffering.max.ms
    queue.buffering.max.messages queue.buffering.max.kbytes batch.size batch.num.messages retries
    message.send.max.retries message.max.bytes message.timeout.ms delivery.timeout.ms enable.idempotence
    transactional.id transaction.timeout.ms partitioner sticky.partitioning.linger.ms
    max.in.flight max.in.flight.requests.per.connection
    retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms reconnect.backoff.max.ms connections.max.idle.ms
    metadata.max.age.ms metadata.recovery.strategy topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
    socket.keepalive.enable socket.nagle.disable socket.connection.setup.timeout.ms socket.send.buffer.bytes
    socket.receive.buffer.bytes socket.max.fails broker.address.family broker.address.ttl client.dns.lookup
    api.version.request api.version.request.timeout.ms api.version.fallback.ms broker.version.fallback
    receive.message.max.bytes log.connection.close log_level debug statistics.interval.ms enable.metrics.push
    error_cb stats_cb throttle_cb log_cb logger on_commit
    sasl.kerberos.principal sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    """.split()  # noqa: SIM905
)
"""Keys for consuming, producing, or for tuning and logging of a client that isn't used here. Kerberos principal and
keytab are left to the ticket cache (``airflow kerberos``)."""

REFUSED_KEYS = {
    "ssl.ca.pem": "write the certificates to a file and name it in ssl.ca.location",
    "ssl.certificate.pem": "write the certificate to a file and name it in ssl.certificate.location",
    "ssl.key.pem": "write the key to a file and name it in ssl.key.location",
    "ssl.keystore.location": "convert the keystore to PEM and use ssl.certificate.location and ssl.key.location",
    "ssl.truststore.location": "convert the truststore to PEM and use ssl.ca.location",
    "ssl.crl.location": "revocation lists are not supported",
    "sasl.jaas.config": "use sasl.username and sasl.password",
    "https.ca.pem": "write the certificates to a file and name it in https.ca.location",
}

_MSK_HOST = re.compile(
    r"\.kafka(-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?(:\d+)?\s*(,|$)", re.IGNORECASE
)
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~:/?@!$&()*+,;=%-]*)?")
"""A URL without characters that end a word. It becomes an option of Java processes, and people who may edit connections
mustn't be able to add further options."""
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:,/\[\]]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How a TLS connection is secured. Paths are PEM files on this machine.

    :param ca_location: certificate authorities to trust; None for the system's.
    :param certificate_location: this client's certificate chain; None for no client certificate.
    :param key_location: its private key; None if the key is in the certificate file.
    :param verify_hostname: whether to check that the broker's certificate is issued for its host name.
    """

    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify_certificate: bool = True
    verify_hostname: bool = True


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How the client authenticates.

    :param mechanism: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``GSSAPI``, ``OAUTHBEARER`` or ``AWS_MSK_IAM``.
    :param username: only for the first three mechanisms, like the password.
    :param kerberos_service_name: the brokers' Kerberos service, for GSSAPI.
    :param oauth: where tokens come from, for OAUTHBEARER.
    :param java_login_handler: the Java class that gets Spark's tokens, for OAUTHBEARER; None for Kafka's own.
    """

    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    kerberos_service_name: str = "kafka"
    oauth: OAuthSettings | None = None
    java_login_handler: str | None = None


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach a cluster. Secrets stay out of ``repr``.

    :param bootstrap_servers: ``host:port`` of brokers to ask first.
    :param security_protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
    :param tls: set for SSL and SASL_SSL.
    :param sasl: set for SASL_PLAINTEXT and SASL_SSL.
    :param client_id: the name in brokers' request logs and quotas.
    :param request_timeout_s: how long one broker may take for one answer; None for half of the call's time limit, which
        leaves time to ask the next leader when a broker hangs.
    """

    bootstrap_servers: tuple[str, ...]
    security_protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    client_id: str = DEFAULT_CLIENT_ID
    request_timeout_s: float | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Read librdkafka-style keys, as in the ``extra`` of an Airflow Kafka connection.

        :raises ConfigurationError: naming the key that is missing, unknown or has an invalid value.
        """
        keys = _known(config)
        protocol = _choice(keys, "security.protocol", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        return cls(
            bootstrap_servers=_bootstrap_servers(keys),
            security_protocol=protocol,
            tls=_tls(keys) if protocol.endswith("SSL") else None,
            sasl=_sasl(keys, protocol) if protocol.startswith("SASL") else None,
            client_id=keys.get("client.id", DEFAULT_CLIENT_ID),
            request_timeout_s=_request_timeout_s(keys),
        )


def _known(config: Mapping[str, object]) -> dict[str, Any]:
    """The keys that have an effect, with aliases resolved and values as text; ``oauth_cb`` may be a function."""
    keys = {_ALIASES.get(key, key): value for key, value in config.items()}
    for key in (key for key in keys if key not in USED_KEYS | IGNORED_KEYS):
        if key in REFUSED_KEYS:
            why = f"is not supported: {REFUSED_KEYS[key]}."
        else:
            nearest = difflib.get_close_matches(key, USED_KEYS | IGNORED_KEYS, n=1)
            why = "is not a known librdkafka key." + (f" Did you mean {nearest[0]}?" if nearest else "")
        raise ConfigurationError(f"The Kafka connection sets {key}, which {why}")
    used = {key: keys[key] for key in USED_KEYS & keys.keys() if keys[key] not in (None, "")}
    return {key: value if callable(value) else str(value).strip() for key, value in used.items()}


def _bootstrap_servers(keys: Mapping[str, str]) -> tuple[str, ...]:
    servers = tuple(filter(None, map(str.strip, keys.get("bootstrap.servers", "").split(","))))
    if not servers:
        raise ConfigurationError('The Kafka connection has no bootstrap.servers. Set it to "host:port,host:port".')
    for server in servers:
        match = _ADDRESS.fullmatch(server)
        if match is None or int(match["port"] or 9092) not in range(1, 65536):
            raise ConfigurationError(f"bootstrap.servers contains {server!r}, which is not host:port.")
    return servers


def _choice(keys: Mapping[str, str], key: str, *allowed: str) -> str:
    """One of the allowed values, ignoring case; the first by default, as in librdkafka."""
    given = keys.get(key, allowed[0])
    found = next((value for value in allowed if value.lower() == given.lower()), None)
    if found is None:
        raise ConfigurationError(f"{key} is {given!r}; it must be {' or '.join(allowed)}.")
    return found


def _sasl(keys: Mapping[str, str], protocol: str) -> SaslSettings:
    mechanism = _choice(
        keys, "sasl.mechanism", KERBEROS, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, MSK_IAM
    )
    if mechanism == KERBEROS:
        return SaslSettings(mechanism, kerberos_service_name=keys.get("sasl.kerberos.service.name", "kafka"))
    if mechanism == MSK_IAM or (mechanism == OAUTHBEARER and _is_msk(keys)):
        if protocol != "SASL_SSL":
            raise ConfigurationError(f"sasl.mechanism {MSK_IAM} needs security.protocol SASL_SSL.")
        return SaslSettings(MSK_IAM)
    if mechanism == OAUTHBEARER:
        handler = keys.get("sasl.login.callback.handler.class")
        return SaslSettings(mechanism, oauth=_oauth(keys), java_login_handler=handler)
    for key in ("sasl.username", "sasl.password"):
        if key not in keys:
            raise ConfigurationError(f"sasl.mechanism {mechanism} needs {key}, which the Kafka connection doesn't set.")
    return SaslSettings(mechanism, keys["sasl.username"], keys["sasl.password"])


def _is_msk(keys: Mapping[str, Any]) -> bool:
    """Whether the brokers have Amazon's names and no token source is set. The Kafka provider then uses MSK with IAM."""
    says_how = {"oauth_cb", "sasl.oauthbearer.method", "sasl.login.callback.handler.class"} & keys.keys()
    return not says_how and msk_region(keys.get("bootstrap.servers", "")) is not None


def msk_region(addresses: str) -> str | None:
    """The AWS region in brokers' names; None for names that aren't Amazon's own, such as private ones."""
    found = _MSK_HOST.search(addresses)
    return None if found is None else found["region"].lower()


def _oauth(keys: Mapping[str, Any]) -> OAuthSettings:
    function, method = keys.get("oauth_cb"), _choice(keys, "sasl.oauthbearer.method", "default", "oidc")
    if isinstance(function, str):
        raise ConfigurationError(
            f"oauth_cb names the function {function!r}, which is imported only in Airflow, and only if its setting "
            "[apache_kafka] callback_allowlist contains it."
        )
    if function is not None and method == "default":
        return OAuthSettings(function, keys.get("sasl.oauthbearer.config", ""))
    if method == "default":
        raise ConfigurationError(
            "sasl.mechanism OAUTHBEARER needs sasl.oauthbearer.method=oidc with sasl.oauthbearer.token.endpoint.url, "
            "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret; or a function as oauth_cb. The Kafka "
            "connection sets neither."
        )
    names = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
    missing = [key for key in names if key not in keys]
    if missing:
        raise ConfigurationError(f"sasl.oauthbearer.method oidc needs {', '.join(missing)} in the Kafka connection.")
    endpoint, client_id, client_secret = (keys[key] for key in names)
    if not _ENDPOINT.fullmatch(endpoint):
        raise ConfigurationError(f"{names[0]} is {endpoint!r}, which is not an HTTP or HTTPS URL.")
    return OAuthSettings(
        endpoint=endpoint,
        client_id=client_id,
        client_secret=client_secret,
        scope=keys.get("sasl.oauthbearer.scope"),
        extensions=_extensions(keys.get("sasl.oauthbearer.extensions", "")),
        ca_location=keys.get("https.ca.location"),
    )


def _extensions(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in filter(None, map(str.strip, text.split(",")))]
    if not all(equals for _, equals, _ in pairs):
        raise ConfigurationError(f"sasl.oauthbearer.extensions is {text!r}; it must be name=value,name=value.")
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if not all(re.fullmatch("[A-Za-z]+", name) and name != "auth" for name in found):
        raise ConfigurationError(
            f"sasl.oauthbearer.extensions is {text!r}; names must consist of letters, and can't be auth."
        )
    return found


def _tls(keys: Mapping[str, str]) -> TlsSettings:
    return TlsSettings(
        ca_location=keys.get("ssl.ca.location"),
        certificate_location=keys.get("ssl.certificate.location"),
        key_location=keys.get("ssl.key.location"),
        key_password=keys.get("ssl.key.password"),
        verify_certificate=_choice(keys, "enable.ssl.certificate.verification", "true", "false") == "true",
        verify_hostname=_choice(keys, "ssl.endpoint.identification.algorithm", "https", "none") == "https",
    )


def _request_timeout_s(keys: Mapping[str, str]) -> float | None:
    for key in ("socket.timeout.ms", "request.timeout.ms"):
        if key in keys:
            if not re.fullmatch("[0-9]{1,10}", keys[key]) or int(keys[key]) == 0:
                raise ConfigurationError(f"{key} is {keys[key]!r}; it must be a number of milliseconds above 0.")
            return int(keys[key]) / 1000
    return None


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """The TLS context for all connections of a client. Built up front, so that an unreadable file is refused at once.

    :raises ConfigurationError: naming the key whose file can't be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.verify_hostname and settings.verify_certificate
    if not settings.verify_certificate:
        context.verify_mode = ssl.CERT_NONE
    ca, certificate, key = settings.ca_location, settings.certificate_location, settings.key_location
    if ca is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(ca)
        except OSError as error:
            raise ConfigurationError(f"ssl.ca.location {ca} can't be used: {error}.") from error
    if certificate is not None:
        try:
            # An empty password rather than None: with None, OpenSSL prompts on the terminal and blocks the task.
            context.load_cert_chain(certificate, key, settings.key_password or "")
        except OSError as error:
            raise ConfigurationError(
                f"ssl.certificate.location {certificate} with ssl.key.location {key} can't be used: {error}. Check "
                "both files and ssl.key.password."
            ) from error
    return context
