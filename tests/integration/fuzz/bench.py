"""The bench: the clients with which histories are done, and what no client library does on purpose."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import for_code
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from dev import raw_client
from tests.integration.fuzz.history import CODECS, COMMIT
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S

TRANSACTION_PRODUCERS = 5


class Bench:
    """The clients with which one thread does histories: made once, since transactional producers take a second."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        common = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        producing: dict[str, Any] = common | {"linger.ms": 2, "enable.idempotence": True}
        self.admin = AdminClient(common)
        self.leaders = connect(KafkaAdminClient, bootstrap_servers=bootstrap_servers)
        self.plain = [Producer(producing | {"compression.codec": each}) for each in CODECS]
        self._ids = itertools.count(1)
        self._producing = producing
        self._name = name
        with ThreadPoolExecutor(TRANSACTION_PRODUCERS) as side_by_side:
            self.free = list(side_by_side.map(lambda _: self._new_transactional(), range(TRANSACTION_PRODUCERS)))
        self.markers = MarkerWriter(bootstrap_servers, f"{name}-markers")

    def close(self) -> None:
        for each in self.plain:
            each.flush(PATIENCE_S)
        self.leaders.close()

    def _new_transactional(self) -> Any:
        number = next(self._ids)
        config = {
            "transactional.id": f"{self._name}-{number}",
            "transaction.timeout.ms": 600_000,
            "compression.codec": CODECS[number % len(CODECS)],
        }
        producer = Producer(self._producing | config)
        producer.init_transactions(PATIENCE_S)
        return producer

    def take(self) -> Any:
        """A producer that is in no transaction, the one that has rested longest."""
        return self.free.pop(0) if self.free else self._new_transactional()

    def give_back(self, producer: Any) -> None:
        self.free.append(producer)


class MarkerWriter:
    """Transactions without a record, by the raw protocol: no producer library makes them on purpose, and every one
    leaves them behind when it aborts before a first batch is sent.
    """

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._servers = bootstrap_servers.split(",")
        self._id = transactional_id
        self._coordinator = ""
        self._producer = (-1, -1)

    def write(self, topic: str, partitions: Sequence[int], fate: str) -> None:
        """Announce partitions and end; wait until the coordinator lets another transaction follow."""
        fields = {"producer_id": self._identity()[0], "producer_epoch": self._identity()[1]}
        added = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
        old_fields = {f"v3_and_below_{name}": value for name, value in fields.items()}
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id, v3_and_below_topics=[added], **old_fields
        )

        def added_error(answer: Any) -> int:
            (found,) = answer.results_by_topic_v3_and_below
            return next(
                (each.partition_error_code for each in found.results_by_partition if each.partition_error_code), 0
            )

        self._ask(add, AddPartitionsToTxnResponse, 3, added_error)
        end = EndTxnRequest(transactional_id=self._id, committed=fate == COMMIT, **fields)
        self._ask(end, EndTxnResponse, 3)

    def _identity(self) -> tuple[int, int]:
        if self._producer == (-1, -1):
            request = InitProducerIdRequest(
                transactional_id=self._id, transaction_timeout_ms=600_000, producer_id=-1, producer_epoch=-1
            )
            answer = self._ask(request, InitProducerIdResponse, 4)
            self._producer = (answer.producer_id, answer.producer_epoch)
        return self._producer

    def _ask(
        self, request: Any, response: Any, version: int, error: Callable[[Any], int] = lambda answer: answer.error_code
    ) -> Any:
        """The coordinator's answer; asked again while it moves, or still writes the markers of the last transaction."""
        deadline = time.monotonic() + PATIENCE_S
        code = -1
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, EOFError):
                self._coordinator = self._coordinator or self._find()
                with raw_client.connected(self._coordinator) as connection:
                    raw_client.send(connection, request, version)
                    answer = raw_client.receive(connection, response, version)
                code = error(answer)
                if code == 0:
                    return answer
                if not for_code(code).retriable:
                    raise for_code(code)
            if code != 51:  # CONCURRENT_TRANSACTIONS comes from the right coordinator
                self._coordinator = ""
            time.sleep(0.02)
        raise TimeoutError(f"the coordinator of {self._id} doesn't answer: {code}")

    def _find(self) -> str:
        for address in self._servers:
            with contextlib.suppress(OSError, EOFError), raw_client.connected(address) as connection:
                raw_client.send(connection, FindCoordinatorRequest(key_type=1, coordinator_keys=[self._id]), 4)
                (found,) = raw_client.receive(connection, FindCoordinatorResponse, 4).coordinators
                if found.error_code == 0:
                    return f"{found.host}:{found.port}"
        return ""
