"""The transport: connections to brokers, one I/O thread per client, and a deadline on everything.

Drives kafka-python's connections without its bootstrap and metadata loop, which retries a refused password until it
times out, and can't be given the rest of a deadline. :mod:`.metadata` finds the brokers instead. What is private in
kafka-python is :mod:`.kafka_python`'s alone.

Every failure below becomes one of three errors here: :class:`RequestFailedError` with Kafka's code (callers turn it
into data), :class:`.errors.AuthenticationError` (raised at once), or :class:`.errors.ClusterUnreachableError`.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import kafka.errors as kafka_errors

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import (
    IO_LOOP,
    Connections,
    Framed,
    Future,
    NodeId,
    Read,
    Unreadable,
)
from airflow_kafka_offsets.client.connection.logins import refusal, require_libraries
from airflow_kafka_offsets.client.connection.oauth_tokens import TokenSource
from airflow_kafka_offsets.client.connection.settings import ClientSettings, tls_context
from airflow_kafka_offsets.client.connection.wire import MALFORMED, Code, client_error, named_error
from airflow_kafka_offsets.errors import ClusterUnreachableError, KafkaOffsetsError, ResponseError
from airflow_kafka_offsets.offsets.instants import duration_text

T = TypeVar("T")
_THREAD = f"kafka-io-{IO_LOOP}"
_PAUSE_S = 0.01
_GRACE_S = 5.0
"""How long a caller waits past the deadline for the I/O thread. Only a blocking name look-up can delay the thread, or a
library of Kerberos or AWS that gets a ticket or credentials."""


class RequestFailedError(Exception):
    """A broker gave no answer. Never leaves the client.

    :param error: the reason, under the code of Kafka's own client.
    """

    def __init__(self, error: ResponseError) -> None:
        super().__init__(str(error))
        self.error = error


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def _quiet_kafka_logs() -> None:
    """Suppress kafka-python's log lines from our I/O threads, unless the logger is set to DEBUG. Idempotent.

    kafka-python logs every failure as WARNING or ERROR on each retry, some with a traceback. Our callers get the same
    failures as results or as one exception. Other users of kafka-python in the process keep their log lines.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("kafka."):
            logging.getLogger(name).addFilter(_is_wanted)


def failure_of(error: Exception, address: str) -> ResponseError:
    """Why a broker gave no answer, or an unreadable one, as Kafka's error. Re-raises errors that aren't the broker's.

    :param address: the broker asked, for the message.
    """
    if isinstance(error, RequestFailedError):
        return error.error
    if isinstance(error, KafkaOffsetsError) or not isinstance(error, MALFORMED):
        raise error
    return client_error(error, address)


class Transport:
    """Connections to the brokers of one cluster.

    :param request_timeout_s: how long one broker may take for one answer.
    :raises ConfigurationError: when a certificate or key file can't be used, or something is missing to log in with.
    """

    def __init__(self, settings: ClientSettings, request_timeout_s: float) -> None:
        self.settings = settings
        self.request_timeout_s = request_timeout_s
        require_libraries(settings.sasl, settings.bootstrap_servers)
        context = tls_context(settings.tls) if settings.tls else None
        _quiet_kafka_logs()
        self._tokens = TokenSource(settings.sasl.oauth) if settings.sasl and settings.sasl.oauth else None
        self.connections = Connections(settings, context, self._tokens, request_timeout_s)
        self._loop = self.connections.loop
        self._failures: dict[NodeId, ResponseError] = {}
        self.throttle_time_ms = 0
        """The longest time in milliseconds that a broker throttled us since this was last set to 0."""
        self._loop.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: Deadline) -> T:
        """Run a coroutine on the I/O thread and wait for it.

        :raises ClusterUnreachableError: when it isn't done soon after the deadline. Normally it ends by the deadline
            itself. Also when the token to log in with is late.
        :raises AuthenticationError: when there is no token to log in with.
        """
        if self._tokens is not None:
            self._tokens.token(deadline)  # before any broker is asked, so that the error is the only one
        future = self._loop.call_soon_with_future(work)
        done = threading.Event()
        future.add_both(lambda _: done.set())
        if not done.wait(deadline.remaining_s() + _GRACE_S):
            servers = ", ".join(self.settings.bootstrap_servers)
            raise ClusterUnreachableError(
                f"A request to {servers} did not end by its deadline: is a name look-up hanging?"
            )
        if future.exception is not None:
            raise future.exception
        answer: T = future.value
        return answer

    def close(self) -> None:
        """Close all connections and end the I/O thread. The transport can't be used afterwards."""
        closed = threading.Event()
        self._loop.call_soon_with_future(self.connections.close).add_both(lambda _: closed.set())
        if not closed.wait(_GRACE_S):
            return  # a name look-up is blocking the thread, which then ends with the process
        self._loop.stop(timeout_ms=_GRACE_S * 1000)
        self._loop.close()

    async def send(self, node: NodeId, request: Any, deadline: Deadline, *, read: Read | None = None) -> Any:
        """Send a request to one broker and return its answer: kafka-python's object, or the result of ``read``.

        :raises RequestFailedError: when no readable answer came by the deadline.
        :raises AuthenticationError: when the broker refused the credentials.
        """
        connection = await self._connect(node, deadline)
        await self._wait_while_paused(node, connection, deadline)
        try:
            left_ms = deadline.remaining_ms()
            sent = connection.send_request(Framed(request, read), request_timeout_ms=left_ms)
            # While kafka-python logs in again (KIP-368), it keeps requests back, and doesn't time them.
            answer = await self.connections.wait_for(sent, left_ms)
            if isinstance(answer, Unreadable):
                connection.close(answer.error)  # later answers on it can't be trusted either
                raise answer.error
        except Exception as error:
            raise self._translate(node, error) from None
        self.throttle_time_ms = max(self.throttle_time_ms, getattr(answer, "throttle_time_ms", 0) or 0)
        return answer

    async def _wait_while_paused(self, node: NodeId, connection: Any, deadline: Deadline) -> None:
        """Wait while the broker throttles us or hasn't accepted earlier requests. kafka-python would raise instead."""
        while connection.paused and connection.connected:
            pause_s = max(_PAUSE_S, self.connections.throttled_s(connection))
            if not deadline.allows(pause_s):
                if "throttle" not in connection.paused:
                    why = f"{self.address(node)} doesn't read the requests sent to it"
                    raise RequestFailedError(named_error(Code.REQUEST_TIMED_OUT, why))
                paused = f"{self.address(node)} accepts no requests for another {duration_text(pause_s)}"
                why = f"{paused}: a quota throttles this client"
                raise RequestFailedError(named_error(Code.THROTTLING_QUOTA_EXCEEDED, why))
            await self.sleep(pause_s)

    async def version(
        self, node: NodeId, request_class: Any, deadline: Deadline, *, at_least: int = 0, at_most: int | None = None
    ) -> int:
        """The newest version of a request that this broker and kafka-python both support.

        :raises RequestFailedError: with UNSUPPORTED_VERSION when there is none within the bounds, or when the broker
            can't be reached.
        """
        connection = await self._connect(node, deadline)
        newest = request_class.max_version if at_most is None else at_most
        try:
            version: int = connection.broker_version_data.api_version(request_class, at_least, newest)
            return version
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise RequestFailedError(client_error(error, self.address(node))) from None

    async def version_if_any(
        self, node: NodeId, request_class: Any, deadline: Deadline, *, at_least: int = 0, at_most: int | None = None
    ) -> int | None:
        """The same; None when there is none within the bounds.

        :raises RequestFailedError: when the broker can't be reached.
        """
        try:
            return await self.version(node, request_class, deadline, at_least=at_least, at_most=at_most)
        except RequestFailedError as failed:
            if failed.error.code != Code.UNSUPPORTED_VERSION:
                raise
            return None

    async def _connect(self, node: NodeId, deadline: Deadline) -> Any:
        """A connection that is ready for requests. Waits for kafka-python's back-off to end instead of failing."""
        await self.sleep(min(self.connections.connection_delay(node), deadline.remaining_s()))
        connection = None
        try:
            connection = self.connections.get_connection(
                node, timeout_ms=deadline.remaining_ms(), refresh_metadata_on_err=False
            )
            await self.connections.wait_for(connection.init_future, deadline.remaining_ms())
        except Exception as error:
            reason = error
            if connection is not None and not connection.init_future.is_done:
                connection.close(error)
            elif connection is not None:
                reason = connection.init_future.exception or error  # came together with the deadline, and says more
            raise self._translate(node, reason) from None
        # Ask each broker for its own versions: kafka-python would apply the first broker's versions to all.
        self.connections.broker_version_data = None
        return connection

    def _translate(self, node: NodeId, error: Exception) -> Exception:
        address = self.address(node)
        if isinstance(error, KafkaOffsetsError) and not isinstance(error, ClusterUnreachableError):
            return error  # there is no token, and that isn't the broker's fault
        if isinstance(error, kafka_errors.NodeNotReadyError) and node in self._failures:
            return RequestFailedError(self._failures[node])  # the error that caused the back-off says more
        if (refused := refusal(error, self.settings.sasl, address)) is not None:
            return refused
        if isinstance(error, kafka_errors.KafkaTimeoutError) and node in self.connections.awaiting_token:
            error = ClusterUnreachableError(f"the OAuth token to log in to {address} with is late")
        self._failures[node] = client_error(error, address)
        return RequestFailedError(self._failures[node])

    def brokers(self) -> list[int]:
        """Ids of the known brokers; empty before the first metadata response."""
        return sorted(broker.node_id for broker in self.connections.cluster.brokers())

    def candidates(self, last: NodeId | None = None) -> list[NodeId]:
        """All brokers, for requests that any broker can answer: connected brokers first, ``bootstrap.servers`` last.

        :param last: a broker that others are preferred to, by whichever of its ids; None for no such broker.
        """
        cluster = self.connections.cluster
        avoided = None if last is None else self.address(last)
        known: list[NodeId] = [broker.node_id for broker in cluster.brokers()]
        bootstrap: list[NodeId] = [broker.node_id for broker in cluster.bootstrap_brokers()]
        random.shuffle(known)
        random.shuffle(bootstrap)
        return sorted(
            known + bootstrap, key=lambda node: (self.address(node) == avoided, not self.connections.is_connected(node))
        )

    def address(self, node: NodeId) -> str:
        """``host:port`` of a broker."""
        broker = self.connections.cluster.broker_metadata(node)
        return f"broker {node}" if broker is None else f"{broker.host}:{broker.port}"

    def attempt(self, deadline: Deadline) -> Deadline:
        """The deadline of one attempt within a call."""
        return deadline.within(self.request_timeout_s)

    async def sleep(self, seconds: float) -> None:
        """Pause this coroutine and let others run."""
        await self._loop.sleep(max(0.0, seconds))

    def start(self, work: Callable[[], Awaitable[T]]) -> Any:
        """Start a coroutine alongside the current one; returns a future for its result."""
        return self._loop.call_soon_with_future(work)

    async def gather(self, works: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
        """Run coroutines concurrently and return their results in order. Raises the first exception."""
        return [await started for started in [self.start(work) for work in works]]

    async def wait_for_any(self, futures: Sequence[Any], timeout_s: float) -> None:
        """Wait until one of the futures is done or the timeout has passed."""
        woken = Future()

        def wake(_: object = None) -> None:
            if not woken.is_done:
                woken.success(None)

        for future in futures:
            future.add_both(wake)
        timer = self._loop.call_later(timeout_s, wake)
        await woken
        self._loop.cancel(timer)
