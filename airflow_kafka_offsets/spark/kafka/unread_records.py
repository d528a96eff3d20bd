"""Unread records: whether Kafka has a record where a run wrote no row, asked by Kafka's own consumer on the driver.

Only stretches at the ends of tasks' ranges are asked for, which are short as a rule: a transaction's marker, or what
compaction removed. What compaction has removed since makes a stretch emptier, as it would have been for a read that
began now.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.run_result import UnreadRecord
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients
from airflow_kafka_offsets.spark.kafka.stretches import records_of


def unread_records(clients: KafkaClients, stretches: Iterable[LogRange]) -> tuple[UnreadRecord, ...]:
    """The first record of each partition that has one in a stretch, in order.

    :param clients: of the cluster that was read, with the reader's options.
    :param stretches: ranges in which nothing was written.
    :raises DataLossError: the log no longer has a stretch, so that nobody can tell.
    :raises UncheckedSourceError: when Kafka can't be asked.
    :raises AuthenticationError: when the brokers refuse the credentials.
    """
    found = records_of(clients, stretches, first_alone=True)
    unread = (UnreadRecord(each.topic, each.partition, int(record.offset())) for each, record in found)
    return tuple(sorted(unread, key=lambda each: (each.topic, each.partition)))
