"""What is private in kafka-python (3.0.x): this module alone uses it. Nothing here, and no import of it, changes
kafka-python for others in the process: what differs, differs on this client's objects.

What 3.1 offers instead, where ``kafka.net`` consists of backends, TLS and protocols without I/O (its main branch,
August 2026):

- ``NetworkSelector``, ``Future``: ``kafka.net.backend.selector`` has the first, with the methods that :mod:`.transport`
  calls, and ``SelectorFuture`` for the second.
- ``KafkaConnectionManager``: same name, without ``wait_for``; its backend's ``await_for`` does the same.
- ``_build_transport``: gone. A backend's ``create_connection(protocol, host, port, ssl=…, timeout_at=…)`` resolves,
  connects and shakes hands, so overrides move to a subclass of the selector. It still shakes hands without a time limit
  and gives each address all of the time.
- ``KafkaNetSocket``: gone. The selector's ``connect_addrinfo`` makes a socket and connects it.
- ``KafkaTCPTransport``, ``KafkaSSLTransport``: in ``kafka.net.backend.transport`` and ``kafka.net.ssl``. TLS is a
  protocol around the first, whose ``_sock_recv`` still drops what arrives together with the end of the connection.
- ``_sasl_authenticate`` and its registry of mechanisms: as they are. There is no registry of one's own.
- ``_brokers``, ``_conns``, ``_throttle_time``: as they are.
- ``ResponseClassRegistry``: as it is, and a response that can't be decoded still raises in the I/O loop.
- A batch's bytes (``_buffer``) and whether they are unpacked (``_decompressed``): as they are.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
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
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.schemas.fields.base import BaseField

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.oauth_tokens import OAuthToken, TokenSource, in_thread
from airflow_kafka_offsets.client.connection.settings import MSK_IAM, ClientSettings, msk_region

__all__ = ["Connections", "Framed", "Future", "NodeId", "OwnMessage", "Read", "Unreadable", "bytes_of", "put_unpacked"]

NodeId = int | str
"""A broker's id; kafka-python's ``bootstrap-0`` and so on for brokers known only from ``bootstrap.servers``."""
IO_LOOP = "airflow-kafka-offsets"
"""Name of this client's I/O loops. kafka-python names their threads after it."""
_LOOK_S = 0.02
"""How often a login looks whether its token has come."""

Read = Callable[[bytes], Any]
"""Parses the body of a response; raises ValueError if it is malformed."""


class OwnMessage:
    """The first base of a message that kafka-python lacks, in front of its ``ApiMessage``. The response isn't
    registered in kafka-python, where others would find it, but named by the request.
    """

    __slots__ = ()
    response_class: Any = None
    """For a request: the class of its response."""

    def __init_subclass__(cls, **options: Any) -> None:
        super(ApiMessage, cls).__init_subclass__(**options)
        cls._flexible_versions = BaseField.parse_versions(cls._json["flexibleVersions"])  # type: ignore[attr-defined]
        cls._valid_versions = BaseField.parse_versions(cls._json["validVersions"])  # type: ignore[attr-defined]


def bytes_of(batch: Any) -> memoryview:
    """A record batch as it was sent, header included."""
    return memoryview(batch._buffer)


def put_unpacked(batch: Any, records: bytearray) -> None:
    """Have a compressed batch read these records, instead of unpacking its own."""
    if batch.magic < 2:
        batch._buffer = memoryview(records)
    else:
        batch._buffer, batch._pos = records, 0
    batch._decompressed = True


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

    @property
    def _response_class(self) -> Any:
        ours = getattr(self._message, "response_class", None)
        return self._message.header.get_response_class() if ours is None else ours[self.api_version]

    def parse_header(self, buffer: Any) -> Any:
        return self._response_class.parse_header(buffer)

    def decode(self, buffer: Any) -> Any:
        try:
            if self._read is not None:
                return self._read(buffer.read())
            return self._response_class.decode(buffer, version=self.api_version)
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
    """kafka-python's connection manager and I/O loop, but opening a connection meets the deadline and closes its
    sockets on failure. The addresses of a name share the time, so that one that doesn't answer leaves some for the
    next. A token for a login is waited for in a thread of its own. The requests that kafka-python sends by itself are
    :class:`Framed` too.

    After a refused connection or a failed TLS handshake, kafka-python leaves the socket to the garbage collector; and
    it waits for a TLS handshake without a time limit.

    :param context: for TLS; None without.
    :param tokens: where tokens come from; None for other logins.
    :param request_timeout_s: how long a new login on an open connection may take. Everything else is given the rest of
        its deadline.
    """

    def __init__(
        self,
        settings: ClientSettings,
        context: ssl.SSLContext | None,
        tokens: TokenSource | None,
        request_timeout_s: float,
    ) -> None:
        # Turns off warnings about slow tasks: decoding ten thousand partitions may take a while.
        self.loop = NetworkSelector(client_id=IO_LOOP, slow_task_threshold_secs=0)
        sasl = settings.sasl
        super().__init__(
            self.loop,
            bootstrap_servers=list(settings.bootstrap_servers),
            client_id=settings.client_id,
            request_timeout_ms=request_timeout_s * 1000,
            security_protocol=settings.security_protocol,
            ssl_context=context,
            sasl_mechanism=sasl and sasl.mechanism,
            sasl_plain_username=sasl and sasl.username,
            sasl_plain_password=sasl and sasl.password,
            sasl_kerberos_service_name=sasl and sasl.kerberos_service_name,
            sasl_oauth_token_provider=tokens and _TokenProvider(tokens),
            # The default of 1 MB is too small for the metadata of about ten thousand partitions. kafka-python's own
            # clients use this value.
            receive_message_max_bytes=100_000_000,
            # Old brokers take one group per OffsetFetch. Beyond this limit, kafka-python refuses requests, not queues
            # them.
            max_in_flight_requests_per_connection=1_000_000,
        )
        self._tokens = tokens
        self.awaiting_token: set[NodeId] = set()
        """The brokers whose login waits for a token right now."""

    def learn_brokers(self, brokers: Iterable[Any]) -> None:
        """Replace the known brokers with those of a metadata response."""
        self.cluster._brokers = {broker.node_id: broker for broker in brokers}

    def learn_coordinator(self, found: Any) -> None:
        """Record a coordinator that was missing from the last metadata response, or had another address there."""
        known = self.cluster.broker_metadata(found.node_id)
        if known is None or (known.host, known.port) != (found.host, found.port):
            broker = MetadataResponse.MetadataResponseBroker(found.node_id, found.host, found.port, None)
            self.cluster._brokers[found.node_id] = broker

    def is_connected(self, node: NodeId) -> bool:
        connection = self._conns.get(node)
        return connection is not None and bool(connection.connected)

    def throttled_s(self, connection: Any) -> float:
        """For how many seconds more the broker wants no requests on this connection; 0 or less if it wants them."""
        return float(connection._throttle_time - time.monotonic())

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
            asked = in_thread(partial(tokens.token, Deadline.after(timeout_at - time.monotonic())))
            self.awaiting_token.add(node_id)
            try:
                while not asked.done():
                    await self.loop.sleep(_LOOK_S)
            finally:
                self.awaiting_token.discard(node_id)
            asked.result()
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
        await KafkaNetSocket().sock_connect(self.loop, sock, address, timeout_at=timeout_at)
        if not self.ssl_enabled:
            return _TcpTransport(self.loop, sock, host=node.host)
        transport = _TlsTransport(self.loop, sock, host=node.host, ssl_context=self.config["ssl_context"])
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
                await self.loop.wait_read(sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self.loop.wait_write(sock, timeout_at)


def _send_framed(send: Any, request: Any, **options: Any) -> Any:
    """Send a request, framed if it is a message: the bytes of a login before Kafka 1.0 are none."""
    return send(Framed(request) if isinstance(request, ApiMessage) else request, **options)


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
