"""Topics that are re-created: deleted, and created again with the same name and other records, by confluent_kafka.

In the first topic, every offset has a record. The second has transactions, with markers between them. So a reader that
takes the new records for the old ones has other offsets, and fewer of them than the window.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.judge import Key
from tests.chaos.plan import WINDOW_MS
from tests.integration.fuzz.history import INSTANT_MS
from tests.integration.fuzz.oracle import Oracle
from tests.patience import PATIENCE_S

PARTITIONS = 2
RECORDS = 6
"""How many records each partition has: half of them in the window, and half after it."""
_GONE, _THERE = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_ALREADY_EXISTS


def make(bootstrap_servers: str, topics: Collection[str]) -> None:
    """Create the topics as they are at first."""
    _create(AdminClient(_config(bootstrap_servers)), topics)
    producer = Producer(_config(bootstrap_servers))
    for topic in topics:
        for number in range(RECORDS):
            _send(producer, topic, number)
    assert producer.flush(PATIENCE_S) == 0


def remake(bootstrap_servers: str, topic: str) -> None:
    """Delete a topic and create it again. If somebody else does so at the same time, only one of the two succeeds."""
    admin = AdminClient(_config(bootstrap_servers))
    with _passing(_GONE):
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
    with _passing(_THERE):
        _create(admin, [topic])
    producer = Producer(_config(bootstrap_servers) | {"transactional.id": uuid4().hex})
    producer.init_transactions(PATIENCE_S)
    for number in range(RECORDS):
        if number % 2 == 0:
            producer.begin_transaction()
        _send(producer, topic, number)
        if number % 2 == 1:
            producer.commit_transaction(PATIENCE_S)


def make_sure(bootstrap_servers: str, topic: str) -> None:
    """Create a topic if it isn't there: whoever deleted it may have died before."""
    with _passing(_THERE):
        _create(AdminClient(_config(bootstrap_servers)), [topic])


def visible(bootstrap_servers: str, topic: str, level: str) -> dict[Key, list[int]]:
    """The offsets of all records that a reader of an isolation level gets, by topic and partition."""
    with contextlib.closing(Oracle(bootstrap_servers)) as oracle:
        logs = oracle.logs(topic, PARTITIONS)
    return {(topic, partition): [each.offset for each in log.visible(level)] for partition, log in logs.items()}


def _config(bootstrap_servers: str) -> dict[str, str | int]:
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0}


def _create(admin: AdminClient, topics: Collection[str]) -> None:
    for future in admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in topics]).values():
        future.result(PATIENCE_S)


def _send(producer: Producer, topic: str, number: int) -> None:
    stamp = INSTANT_MS + number * 2 * WINDOW_MS // RECORDS
    for partition in range(PARTITIONS):
        producer.produce(topic, b"value", partition=partition, timestamp=stamp)


@contextlib.contextmanager
def _passing(code: int) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        if error.args[0].code() != code:
            raise
