"""A record: in which window it is. Says what ``ledger find`` says."""

from __future__ import annotations

from dataclasses import asdict

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.whereabouts import find_known
from airflow_kafka_offsets.page.answer import Answer, encoded
from airflow_kafka_offsets.page.writers import dags_of_window


def record(ledger: Ledger, topic: str, partition: int, offset: int) -> Answer:
    """Where it is; the Dags are those of the window that it is in.

    :raises ConfigurationError: when the pipeline doesn't have the topic.
    :raises LedgerError: when a file isn't what it should be.
    """
    found = find_known(ledger, topic, partition, offset)
    if found.window is None:
        return Answer(encoded(asdict(found)))
    folders = ledger.window_folders.live(found.window)
    return Answer(encoded(asdict(found)), dags_of_window(ledger, found.window, folders))
