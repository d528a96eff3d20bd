"""The transport: connections to brokers, one I/O thread per client, and a deadline on everything.

Only this module and :mod:`.kafka_python` touch kafka-python's private parts (3.0.x): ``KafkaConnectionManager`` and
the ``NetworkSelector`` under it, driven directly. Their bootstrap and metadata loop are left out: they retry a refused
password until they time out, and can't be given the rest of a deadline. :mod:`.metadata` asks who the brokers are.

Whatever goes wrong below becomes one of three things here: :class:`RequestFailedError` with Kafka's code for it (data,
further up), :class:`.errors.AuthenticationError` (at once), or :class:`.errors.ClusterUnreachableError`.
"""

from __future__ import annotations

import random
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import kafka.errors as kafka_errors
from kafka.future import Future
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataResponse

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import (
    IO_LOOP,
    Connections,
    Framed,
    Read,
    Unreadable,
    kerberos_refusal,
    manager_config,
    quiet_kafka_logs,
)
from airflow_kafka_offsets.client.connection.oauth_tokens import TokenSource
from airflow_kafka_offsets.client.connection.response_errors import MALFORMED, Code, client_error, named_error
from airflow_kafka_offsets.client.connection.settings import MSK_IAM, OAUTHBEARER, ClientSettings, tls_context
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError, KafkaOffsetsError, ResponseError
from airflow_kafka_offsets.offsets.instants import duration_text

T = TypeVar("T")
NodeId = int | str
"""A broker's id; for one that is only known from ``bootstrap.servers``, kafka-python's ``bootstrap-0``."""

_PAUSE_S = 0.01
_GRACE_S = 5.0
"""How long the caller waits past the deadline for the I/O thread, which only a blocking name look-up can hold up."""
_REFUSED_CREDENTIALS = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)

_CREDENTIALS = {
    OAUTHBEARER: "sasl.oauthbearer.scope and sasl.oauthbearer.client.id",
    MSK_IAM: "the worker's AWS credentials and AWS_DEFAULT_REGION, and what that role may do: not the password",
}
"""What there is to check, by mechanism."""


class RequestFailedError(Exception):
    """A broker gave no answer; stays within the client.

    :param error: why, as Kafka's own client-side code.
    """

    def __init__(self, error: ResponseError) -> None:
        super().__init__(str(error))
        self.error = error


def failure_of(error: Exception, address: str) -> ResponseError:
    """Why one broker gave no answer, or one that can't be read, as Kafka's error. What isn't its own failure is raised.

    :param address: the broker that was asked, for the message.
    """
    if isinstance(error, RequestFailedError):
        return error.error
    if isinstance(error, KafkaOffsetsError) or not isinstance(error, MALFORMED):
        raise error
    return client_error(error, address)


class Transport:
    """Connections to the brokers of one cluster.

    :param request_timeout_s: how long one broker may take for one answer.
    :raises ConfigurationError: when a certificate or key file can't be used.
    """

    def __init__(self, settings: ClientSettings, request_timeout_s: float) -> None:
        self.settings = settings
        self.request_timeout_s = request_timeout_s
        context = tls_context(settings.tls) if settings.tls else None
        quiet_kafka_logs()
        # Its warnings about slow tasks are about callbacks; decoding ten thousand partitions may take its time.
        self._net = NetworkSelector(client_id=IO_LOOP, slow_task_threshold_secs=0)
        self._tokens = TokenSource(settings.sasl.oauth) if settings.sasl and settings.sasl.oauth else None
        self._brokers = Connections(self._net, **manager_config(settings, context, self._tokens))
        self._failures: dict[NodeId, ResponseError] = {}
        self.throttle_time_ms = 0
        """The longest that any broker throttled us by, since somebody set it to 0."""
        self._net.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: Deadline) -> T:
        """Run a coroutine on the I/O thread and wait for it.

        :raises ClusterUnreachableError: when it isn't done soon after the deadline, which it keeps itself otherwise.
        :raises AuthenticationError: when there is no token to log in with.
        """
        if self._tokens is not None:
            self._tokens.token()  # here, where nobody else waits: connections find it on the I/O thread
        future = self._net.call_soon_with_future(work)
        done = threading.Event()
        future.add_both(lambda _: done.set())
        if not done.wait(deadline.remaining_s() + _GRACE_S):
            servers = ", ".join(self.settings.bootstrap_servers)
            raise ClusterUnreachableError(
                f"Asking {servers} did not finish by its deadline: is a name look-up hanging?"
            )
        if future.exception is not None:
            raise future.exception
        answer: T = future.value
        return answer

    def close(self) -> None:
        """Close all connections and end the I/O thread. Nothing can be asked afterwards."""
        closed = threading.Event()
        self._net.call_soon_with_future(self._brokers.close).add_both(lambda _: closed.set())
        if not closed.wait(_GRACE_S):
            return  # a name look-up holds the thread up; it ends with the process, and what it knows with it
        self._net.stop(timeout_ms=_GRACE_S * 1000)
        self._net.close()

    async def send(self, node: NodeId, request: Any, deadline: Deadline, *, read: Read | None = None) -> Any:
        """Ask one broker and return its answer: kafka-python's object, or what ``read`` makes of its bytes.
        :raises RequestFailedError: when none came by the deadline.
        :raises AuthenticationError: when the broker refused the credentials.
        """
        connection = await self._connect(node, deadline)
        await self._wait_while_paused(node, connection, deadline)
        try:
            answer = await connection.send_request(Framed(request, read), request_timeout_ms=deadline.remaining_ms())
            if isinstance(answer, Unreadable):
                connection.close(answer.error)  # nobody knows what else it says wrong
                raise answer.error
        except Exception as error:
            raise self._translate(node, error) from None
        self.throttle_time_ms = max(self.throttle_time_ms, getattr(answer, "throttle_time_ms", 0) or 0)
        return answer

    async def _wait_while_paused(self, node: NodeId, connection: Any, deadline: Deadline) -> None:
        """Wait as long as the broker throttles us, or hasn't taken what was sent before. kafka-python would refuse."""
        while connection.paused and connection.connected:
            pause_s = max(_PAUSE_S, connection._throttle_time - time.monotonic())
            if not deadline.allows(pause_s):
                if "throttle" not in connection.paused:
                    why = f"{self.address(node)} doesn't accept what is sent to it"
                    raise RequestFailedError(named_error(Code.REQUEST_TIMED_OUT, why))
                paused = f"{self.address(node)} accepts no requests for another {duration_text(pause_s)}"
                why = f"{paused}: a quota throttles this client"
                raise RequestFailedError(named_error(Code.THROTTLING_QUOTA_EXCEEDED, why))
            await self.sleep(pause_s)

    async def version(
        self, node: NodeId, request_class: Any, deadline: Deadline, *, at_least: int = 0, at_most: int | None = None
    ) -> int:
        """The newest version of a request that this broker and kafka-python both speak.

        :raises RequestFailedError: UNSUPPORTED_VERSION when there is none in the bounds; or the broker isn't reached.
        """
        connection = await self._connect(node, deadline)
        newest = request_class.max_version if at_most is None else at_most
        try:
            version: int = connection.broker_version_data.api_version(request_class, at_least, newest)
            return version
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise RequestFailedError(client_error(error, self.address(node))) from None

    async def _connect(self, node: NodeId, deadline: Deadline) -> Any:
        """A connection that is ready for requests. Waits out kafka-python's back-off instead of failing with it."""
        await self.sleep(min(self._brokers.connection_delay(node), deadline.remaining_s()))
        connection = None
        try:
            connection = self._brokers.get_connection(
                node, timeout_ms=deadline.remaining_ms(), refresh_metadata_on_err=False
            )
            await self._brokers.wait_for(connection.init_future, deadline.remaining_ms())
        except Exception as error:
            if connection is not None and not connection.init_future.is_done:
                connection.close(error)
            raise self._translate(node, error) from None
        # Each broker is to be asked for its own versions: kafka-python would hold all to those of the first one.
        self._brokers.broker_version_data = None
        return connection

    def _translate(self, node: NodeId, error: Exception) -> Exception:
        address = self.address(node)
        if isinstance(error, kafka_errors.NodeNotReadyError) and node in self._failures:
            return RequestFailedError(self._failures[node])  # still in back-off: why it was there says more
        if isinstance(error, _REFUSED_CREDENTIALS):
            return AuthenticationError(_describe_refusal(self.settings, address, error))
        if (refusal := kerberos_refusal(error)) is not None:
            return AuthenticationError(
                f"There is no Kerberos login at broker {address}: {refusal}. Check the worker's ticket with klist "
                "(airflow kerberos renews it), and sasl.kerberos.service.name of the Kafka connection."
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return AuthenticationError(
                f"The certificate of broker {address} was not accepted: {error.verify_message}. "
                "Check ssl.ca.location and the host name in bootstrap.servers."
            )
        self._failures[node] = client_error(error, address)
        return RequestFailedError(self._failures[node])

    def learn_brokers(self, brokers: Iterable[Any]) -> None:
        """Replace the known brokers by those of a metadata answer."""
        self._brokers.cluster._brokers = {broker.node_id: broker for broker in brokers}

    def learn_coordinator(self, coordinator: Any) -> None:
        """Note a coordinator that the last metadata answer didn't have, or had elsewhere."""
        known = self._brokers.cluster.broker_metadata(coordinator.node_id)
        if known is None or (known.host, known.port) != (coordinator.host, coordinator.port):
            broker = MetadataResponse.MetadataResponseBroker(
                coordinator.node_id, coordinator.host, coordinator.port, None
            )
            self._brokers.cluster._brokers[coordinator.node_id] = broker

    def brokers(self) -> list[int]:
        """Ids of the known brokers; none before the first metadata answer."""
        return sorted(broker.node_id for broker in self._brokers.cluster.brokers())

    def candidates(self) -> list[NodeId]:
        """Everybody who can be asked what any broker knows: open connections first, ``bootstrap.servers`` last."""
        cluster = self._brokers.cluster
        known: list[NodeId] = [broker.node_id for broker in cluster.brokers()]
        bootstrap: list[NodeId] = [broker.node_id for broker in cluster.bootstrap_brokers()]
        random.shuffle(known)
        random.shuffle(bootstrap)
        return sorted(known + bootstrap, key=lambda node: not self._is_connected(node))

    def _is_connected(self, node: NodeId) -> bool:
        connection = self._brokers._conns.get(node)
        return connection is not None and bool(connection.connected)

    def address(self, node: NodeId) -> str:
        """``host:port`` of a broker."""
        broker = self._brokers.cluster.broker_metadata(node)
        return f"broker {node}" if broker is None else f"{broker.host}:{broker.port}"

    def attempt(self, deadline: Deadline) -> Deadline:
        """When one attempt within a call has to be over."""
        return deadline.within(self.request_timeout_s)

    async def sleep(self, seconds: float) -> None:
        """Let others run."""
        await self._net.sleep(max(0.0, seconds))

    def start(self, work: Callable[[], Awaitable[T]]) -> Any:
        """Start a coroutine beside the current one; the future of its result."""
        return self._net.call_soon_with_future(work)

    async def gather(self, works: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
        """Run coroutines side by side and return their results in order. The first exception is raised."""
        return [await started for started in [self.start(work) for work in works]]

    async def wait_for_any(self, futures: Sequence[Any], timeout_s: float) -> None:
        """Wait until one of the futures is done, or the time is over."""
        woken = Future()

        def wake(_: object = None) -> None:
            if not woken.is_done:
                woken.success(None)

        for future in futures:
            future.add_both(wake)
        timer = self._net.call_later(timeout_s, wake)
        await woken
        self._net.cancel(timer)


def _describe_refusal(settings: ClientSettings, address: str, error: Exception) -> str:
    sasl = settings.sasl
    who = f" for user {sasl.username}" if sasl and sasl.username else ""
    mechanism = sasl.mechanism if sasl else "SASL"
    said = " ".join(map(str, error.args)).removeprefix(f"{type(error).__name__}: ") or getattr(error, "message", "")
    keys = _CREDENTIALS.get(mechanism, "sasl.username and sasl.password")
    return (
        f"Broker {address} refused {mechanism} authentication{who}: {said}. "
        f"Check security.protocol, sasl.mechanism, {keys} of the Kafka connection."
    )
