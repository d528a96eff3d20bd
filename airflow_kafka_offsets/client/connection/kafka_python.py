"""kafka-python 3.0.x, as this client needs it: its log lines, its frames, and how its connections are opened.

Much here is private to kafka-python. What goes over the connections is :mod:`.transport`'s job.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import kafka.errors as kafka_errors
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.msk import SaslMechanismAwsMskIam
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from airflow_kafka_offsets.client.connection.oauth_tokens import TokenSource
from airflow_kafka_offsets.client.connection.settings import KERBEROS, MSK_IAM, ClientSettings, msk_region
from airflow_kafka_offsets.errors import ConfigurationError

IO_LOOP = "airflow-kafka-offsets"
"""The name of this client's I/O loops. kafka-python names their threads after it."""

_THREAD = f"kafka-io-{IO_LOOP}"
_NO_KDC = ("Cannot contact any KDC", "Cannot resolve servers for KDC", "unable to reach any KDC")
"""How MIT's library and Heimdal's say that nobody could be asked."""


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def quiet_kafka_logs() -> None:
    """Hold back what our I/O threads log, unless the logger is set to DEBUG. Asking twice has no effect.

    Every failure that kafka-python logs as WARNING or ERROR, some with a traceback and once per retry, comes back to
    the caller as a result or as one exception. Other users of kafka-python in the same process keep their lines.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("kafka."):
            logging.getLogger(name).addFilter(_is_wanted)


Read = Callable[[bytes], Any]
"""From the body of a response to an answer; raises ValueError for what isn't one."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A frame that isn't the answer it should be. kafka-python 3.0.12 would lose it, and wait for the deadline."""

    error: kafka_errors.KafkaProtocolError


class Framed:
    """To kafka-python: a request, its header, and the class that decodes its answer.

    kafka-python encodes a request, keeps its header, and decodes the answer by the class that the header names.

    :param read: reads the answer in place of that class.
    """

    def __init__(self, request: Any, read: Read | None) -> None:
        self._message = request
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def __str__(self) -> str:
        return str(self._message)

    @property
    def header(self) -> Any:
        return self

    @property
    def correlation_id(self) -> int:
        return int(self._message.header.correlation_id)

    @property
    def api_version(self) -> int:
        return int(self._message.API_VERSION)

    def get_response_class(self) -> Any:
        return self

    def parse_header(self, buffer: Any) -> Any:
        return self._message.header.get_response_class().parse_header(buffer)

    def decode(self, buffer: Any) -> Any:
        try:
            if self._read is not None:
                return self._read(buffer.read())
            return self._message.header.get_response_class().decode(buffer)
        except (ValueError, IndexError, TypeError, struct.error) as error:
            return Unreadable(kafka_errors.KafkaProtocolError(f"{self._message.name}: {error}"))


class _KeepsLastWords:
    """Hands over what a broker said right before it closed the connection.

    kafka-python 3.0.12 drops it when both arrive together: the reason why a password was refused, for one.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()  # type: ignore[misc]
        return (received, None) if received else (received, error)


class _TcpTransport(_KeepsLastWords, KafkaTCPTransport):
    pass


class _TlsTransport(_KeepsLastWords, KafkaSSLTransport):
    pass


class Connections(KafkaConnectionManager):
    """kafka-python's connections, opened in a way that ends by the deadline and closes what it opened.

    kafka-python 3.0.12 leaves the socket of a refused connection and of a failed TLS handshake to the garbage
    collector, and waits for a TLS handshake without end.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        refusal: Exception | None = None
        for family, kind, protocol, _, address in _addresses(node):
            sock = socket.socket(family, kind, protocol)
            try:
                return await self._open(node, sock, address, timeout_at)
            except BaseException as error:
                sock.close()
                if not isinstance(error, (OSError, kafka_errors.KafkaError)):
                    raise
                refusal = error
        assert refusal is not None, "a name that resolves has an address"
        raise refusal

    async def _open(self, node: Any, sock: socket.socket, address: Any, timeout_at: float | None) -> Any:
        sock.setblocking(False)
        for option in self.config["socket_options"]:
            sock.setsockopt(*option)
        await KafkaNetSocket().sock_connect(self._net, sock, address, timeout_at=timeout_at)
        if not self.ssl_enabled:
            return _TcpTransport(self._net, sock, host=node.host)
        transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        try:
            await self._shake_hands(transport._sock, timeout_at)
        except BaseException:
            transport._sock.close()  # it took the plain socket's place
            raise
        return transport

    async def _shake_hands(self, sock: ssl.SSLSocket, timeout_at: float | None) -> None:
        while True:
            try:
                return sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(sock, timeout_at)


def _addresses(node: Any) -> list[Any]:
    try:
        return socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise kafka_errors.KafkaConnectionError(f"the name can't be resolved ({error.strerror})") from error


class _MskIam(SaslMechanismAwsMskIam):
    """Signs for the region that the broker's name tells, as the Kafka provider does; otherwise for the environment's.
    A worker may be in another one."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        region = msk_region(self.host)
        if region is not None:
            self._boto_session_cls = partial(_session_in, region)


# For all of this process: a mechanism's name is what brokers are told, so that ours can't have another one.
register_sasl_mechanism(MSK_IAM, _MskIam, overwrite=True)


def _session_in(region: str) -> Any:
    from botocore.session import Session  # type: ignore[import-untyped]

    session = Session()
    session.set_config_variable("region", region)
    return session


def _require_aws(addresses: Collection[str]) -> None:
    """What kafka-python signs with; it says what is missing on its I/O thread alone.

    :param addresses: of brokers.
    :raises ConfigurationError: naming it.
    """
    try:
        from botocore.session import Session
    except ImportError:
        raise ConfigurationError(
            f"sasl.mechanism {MSK_IAM} needs botocore: pip install 'airflow-kafka-offsets[msk]'."
        ) from None
    session = Session()
    if not session.get_config_variable("region") and not all(map(msk_region, addresses)):
        raise ConfigurationError(
            f"sasl.mechanism {MSK_IAM} needs the cluster's AWS region, and the names of its brokers "
            f"({', '.join(addresses)}) don't contain it: set AWS_DEFAULT_REGION."
        )
    if session.get_credentials() is None:
        raise ConfigurationError(
            f"sasl.mechanism {MSK_IAM} needs AWS credentials, and this machine has none: no role, no profile, "
            "no AWS_ACCESS_KEY_ID."
        )


def _require_gssapi() -> None:
    """The machine's Kerberos library, which kafka-python misses on its I/O thread alone.

    :raises ConfigurationError: saying how to get it.
    """
    try:
        import gssapi  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except (ImportError, OSError) as error:
        raise ConfigurationError(
            f"sasl.mechanism {KERBEROS}, which is the default of SASL, needs Python's gssapi ({error}): pip install "
            "'airflow-kafka-offsets[kerberos]', which is compiled against the machine's Kerberos library (Debian, "
            "Ubuntu: apt-get install gcc libkrb5-dev). For a password, set sasl.mechanism."
        ) from None


def kerberos_refusal(error: Exception) -> str | None:
    """What Kerberos says where it gives no login; None where it isn't Kerberos, or no KDC could be reached."""
    gssapi = sys.modules.get("gssapi")  # imported by whoever logs in by it
    if gssapi is None or not isinstance(error, gssapi.exceptions.GSSError):
        return None
    said = str(error)
    return (
        None if any(words in said for words in _NO_KDC) else said.rpartition("Minor (")[2].partition("): ")[2] or said
    )


class _TokenProvider(AbstractTokenProvider):
    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.token().text

    def extensions(self) -> dict[str, str]:
        return dict(self._tokens.token().extensions)


def manager_config(
    settings: ClientSettings, context: ssl.SSLContext | None, tokens: TokenSource | None
) -> dict[str, Any]:
    sasl = settings.sasl
    if sasl is not None and sasl.mechanism == MSK_IAM:
        _require_aws(settings.bootstrap_servers)
    if sasl is not None and sasl.mechanism == KERBEROS:
        _require_gssapi()
    return {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": settings.client_id,
        "security_protocol": settings.security_protocol,
        "ssl_context": context,
        "sasl_mechanism": sasl and sasl.mechanism,
        "sasl_plain_username": sasl and sasl.username,
        "sasl_plain_password": sasl and sasl.password,
        "sasl_kerberos_service_name": sasl and sasl.kerberos_service_name,
        "sasl_oauth_token_provider": tokens and _TokenProvider(tokens),
        # The manager's default of 1 MB is less than the metadata of some ten thousand partitions; this is its clients'.
        "receive_message_max_bytes": 100_000_000,
        # Old brokers take one group per OffsetFetch. Past this limit kafka-python refuses instead of queueing.
        "max_in_flight_requests_per_connection": 1_000_000,
        "reconnect_backoff_max_ms": 1_000,
    }
