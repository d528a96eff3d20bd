"""Adapts kafka-python 3.0.x: its log lines, its frames, and how it opens connections.

Much of this uses kafka-python's private API. Sending requests is :mod:`.transport`'s job. Nothing here changes
kafka-python for others in the process: what differs, differs on this client's connections.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import kafka.errors as kafka_errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.msk import SaslMechanismAwsMskIam
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.api_message import ApiMessage

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.oauth_tokens import OAuthToken, TokenSource
from airflow_kafka_offsets.client.connection.settings import KERBEROS, MSK_IAM, ClientSettings, msk_region
from airflow_kafka_offsets.client.decoding import decode_body
from airflow_kafka_offsets.errors import ConfigurationError

IO_LOOP = "airflow-kafka-offsets"
"""Name of this client's I/O loops. kafka-python names their threads after it."""

_THREAD = f"kafka-io-{IO_LOOP}"
_NO_KDC = ("Cannot contact any KDC", "Cannot resolve servers for KDC", "unable to reach any KDC")
"""Messages from MIT's and Heimdal's Kerberos libraries when no KDC can be reached."""


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def quiet_kafka_logs() -> None:
    """Suppress kafka-python's log lines from our I/O threads, unless the logger is set to DEBUG. Idempotent.

    kafka-python logs every failure as WARNING or ERROR on each retry, some with a traceback. Our callers get the same
    failures as results or as one exception. Other users of kafka-python in the process keep their log lines.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("kafka."):
            logging.getLogger(name).addFilter(_is_wanted)


Read = Callable[[bytes], Any]
"""Parses the body of a response; raises ValueError if it is malformed."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A response that can't be decoded. kafka-python 3.0.12 would drop the error, and wait until the deadline."""

    error: kafka_errors.KafkaProtocolError

    @property
    def error_code(self) -> int:
        """What kafka-python looks at first in the answers to its own requests: this ends the connection.

        :raises KafkaProtocolError: why it can't be decoded.
        """
        raise self.error


class Framed:
    """Poses to kafka-python as a request, as its header, and as the class that decodes its response.

    kafka-python encodes a request, keeps its header, and decodes the response with the class that the header names.

    :param read: decodes the response; None for kafka-python's schema.
    """

    def __init__(self, request: Any, read: Read | None = None) -> None:
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

    @property
    def API_VERSION(self) -> Any:
        return self._message.API_VERSION

    @API_VERSION.setter
    def API_VERSION(self, version: int) -> None:
        self._message.API_VERSION = version

    def get_response_class(self) -> Any:
        return self

    def parse_header(self, buffer: Any) -> Any:
        return self._message.header.get_response_class().parse_header(buffer)

    def decode(self, buffer: Any) -> Any:
        try:
            if self._read is not None:
                return self._read(buffer.read())
            return decode_body(self._message.header.get_response_class(), self.api_version, buffer.read())
        except (ValueError, IndexError, TypeError, struct.error) as error:
            return Unreadable(kafka_errors.KafkaProtocolError(f"{self._message.name}: {error}"))


class _KeepsLastWords:
    """Keeps what a broker sent right before it closed the connection, such as why it refused a password.

    kafka-python 3.0.12 drops it if data and close arrive together.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()  # type: ignore[misc]
        return (received, None) if received else (received, error)


class _TcpTransport(_KeepsLastWords, KafkaTCPTransport):
    pass


class _TlsTransport(_KeepsLastWords, KafkaSSLTransport):
    pass


class Connections(KafkaConnectionManager):
    """kafka-python's connection manager, but opening a connection meets the deadline and closes its sockets on failure.
    The addresses of a name share the time, so that one that doesn't answer leaves some for the next. A token for a
    login is waited for in a thread of its own. The requests that kafka-python sends by itself are :class:`Framed` too.

    After a refused connection or a failed TLS handshake, kafka-python 3.0.12 leaves the socket to the garbage
    collector; and it waits for a TLS handshake without a time limit.

    :param tokens: where tokens come from; None for other logins.
    """

    def __init__(self, net: Any, tokens: TokenSource | None, **config: Any) -> None:
        super().__init__(net, **config)
        self._tokens = tokens
        self.awaiting_token: set[Any] = set()
        """The brokers whose login waits for a token right now."""

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        conn._send_request = partial(_send_framed, conn._send_request)
        if self.config["sasl_mechanism"] == MSK_IAM:
            conn._sasl_authenticate = partial(_log_in_to_msk, conn)
        if self._tokens is not None:
            # kafka-python also logs in again with it, on a connection that is open (KIP-368).
            conn._sasl_authenticate = partial(self._log_in, conn.node_id, self._tokens, conn._sasl_authenticate)
        await super()._connect(node, conn, **options)

    async def _log_in(self, node_id: Any, tokens: TokenSource, log_in: Any, timeout_at: float | None = None) -> None:
        if timeout_at is None:
            timeout_at = time.monotonic() + self.config["request_timeout_ms"] / 1000
        if tokens.is_due:
            self.awaiting_token.add(node_id)
            try:
                await _in_thread(self._net, partial(tokens.token, Deadline.after(timeout_at - time.monotonic())))
            finally:
                self.awaiting_token.discard(node_id)
        await log_in(timeout_at)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        refusal: Exception | None = None
        addresses = _addresses(node)
        for number, (family, kind, protocol, _, address) in enumerate(addresses):
            sock = socket.socket(family, kind, protocol)
            try:
                return await self._open(node, sock, address, _share(timeout_at, len(addresses) - number))
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
            transport._sock.close()  # it has replaced the plain socket
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


def _send_framed(send: Any, request: Any, **options: Any) -> Any:
    """Send a request, framed if it is a message: the bytes of a login before Kafka 1.0 are none."""
    return send(Framed(request) if isinstance(request, ApiMessage) else request, **options)


def _in_thread(net: Any, work: Callable[[], object]) -> Future:
    """Do some work outside the I/O thread. The I/O thread can await its end, and raises its errors."""
    ended = Future()

    def settle() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:
            error = raised

        def tell() -> None:
            if error is None:
                ended.success(None)
            else:
                ended.failure(error)

        with suppress(RuntimeError):  # the client has been closed
            net.call_soon_threadsafe(tell)

    threading.Thread(target=settle, name="token for a login", daemon=True).start()
    return ended


def _share(timeout_at: float | None, addresses: int) -> float | None:
    """When the first of these addresses must have answered, so that as much time is left for each of the others."""
    now = time.monotonic()
    return None if timeout_at is None else now + (timeout_at - now) / addresses


def _addresses(node: Any) -> list[Any]:
    try:
        return socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for one that can't be a name
        why = error.strerror if isinstance(error, OSError) else error
        raise kafka_errors.KafkaConnectionError(f"the name can't be resolved ({why})") from error


class MskIam(SaslMechanismAwsMskIam):
    """Signs for the region in the broker's name, as the Kafka provider does, because the worker may be in another
    region. If the name contains none, signs for the environment's region."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        region = msk_region(self.host)
        if region is not None:
            self._boto_session_cls = partial(_session_in, region)


# kafka-python's own login, but for the class that signs: it takes that by the mechanism's name from a registry of the
# whole process, where the class would also sign for others.
_log_in_to_msk = FunctionType(
    KafkaConnection._sasl_authenticate.__code__,
    KafkaConnection._sasl_authenticate.__globals__ | {"get_sasl_mechanism": lambda _: MskIam},
    argdefs=KafkaConnection._sasl_authenticate.__defaults__,
)


def _session_in(region: str) -> Any:
    from botocore.session import Session  # type: ignore[import-untyped]

    session = Session()
    session.set_config_variable("region", region)
    return session


def _require_aws(addresses: Collection[str]) -> None:
    """Check for botocore, a region and credentials. kafka-python needs them to sign, and would report one missing only
    on its I/O thread.

    :param addresses: the brokers' addresses.
    :raises ConfigurationError: naming what is missing.
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
            f"sasl.mechanism {MSK_IAM} needs the cluster's AWS region, which the brokers' names "
            f"({', '.join(addresses)}) don't contain: set AWS_DEFAULT_REGION."
        )
    if session.get_credentials() is None:
        raise ConfigurationError(
            f"sasl.mechanism {MSK_IAM} needs AWS credentials, but this machine has none: no role, no profile, "
            "no AWS_ACCESS_KEY_ID."
        )


def _require_gssapi() -> None:
    """Check for Python's gssapi, which kafka-python would find missing only on its I/O thread.

    :raises ConfigurationError: saying how to install it.
    """
    try:
        import gssapi  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except (ImportError, OSError) as error:
        raise ConfigurationError(
            f"sasl.mechanism {KERBEROS}, the default for SASL, needs Python's gssapi ({error}): pip install "
            "'airflow-kafka-offsets[kerberos]', which is compiled against the machine's Kerberos library (Debian, "
            "Ubuntu: apt-get install gcc libkrb5-dev). To log in with a password, set sasl.mechanism."
        ) from None


def kerberos_refusal(error: Exception) -> str | None:
    """Why Kerberos refused a login; None if the error isn't from Kerberos, or no KDC could be reached."""
    gssapi = sys.modules.get("gssapi")  # already imported if Kerberos is in use
    if gssapi is None or not isinstance(error, gssapi.exceptions.GSSError):
        return None
    said = str(error)
    return (
        None if any(words in said for words in _NO_KDC) else said.rpartition("Minor (")[2].partition("): ")[2] or said
    )


class _TokenProvider(AbstractTokenProvider):
    """Gives kafka-python the newest token: it asks on the I/O thread, which may not wait for another."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens
        self._given = OAuthToken("", 0, 0)

    def token(self) -> str:
        self._given = self._tokens.newest
        return self._given.text

    def extensions(self) -> dict[str, str]:
        """Those of the token given last: kafka-python asks for both in turn."""
        return dict(self._given.extensions)


def manager_config(
    settings: ClientSettings, context: ssl.SSLContext | None, tokens: TokenSource | None, request_timeout_s: float
) -> dict[str, Any]:
    """The settings of :class:`Connections`.

    :param request_timeout_s: how long a new login on an open connection may take. Everything else is given the rest of
        its deadline.
    :raises ConfigurationError: when something is missing to log in with.
    """
    sasl = settings.sasl
    if sasl is not None and sasl.mechanism == MSK_IAM:
        _require_aws(settings.bootstrap_servers)
    if sasl is not None and sasl.mechanism == KERBEROS:
        _require_gssapi()
    return {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": settings.client_id,
        "request_timeout_ms": request_timeout_s * 1000,
        "security_protocol": settings.security_protocol,
        "ssl_context": context,
        "sasl_mechanism": sasl and sasl.mechanism,
        "sasl_plain_username": sasl and sasl.username,
        "sasl_plain_password": sasl and sasl.password,
        "sasl_kerberos_service_name": sasl and sasl.kerberos_service_name,
        "sasl_oauth_token_provider": tokens and _TokenProvider(tokens),
        # The manager's default of 1 MB is too small for the metadata of about ten thousand partitions. kafka-python's
        # own clients use this value.
        "receive_message_max_bytes": 100_000_000,
        # Old brokers take one group per OffsetFetch. Beyond this limit, kafka-python refuses requests, not queues them.
        "max_in_flight_requests_per_connection": 1_000_000,
        "reconnect_backoff_max_ms": 1_000,
    }
