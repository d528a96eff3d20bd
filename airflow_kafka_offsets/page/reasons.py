"""Why a load failed, and what helps, in words for somebody on call.

The class of an error says both without a driver's own message, which may quote a record: that one is only for users who
may read the logs of the Dag's tasks, where Airflow shows it too.
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote

Json = dict[str, Any]

_CLEAR = "Clear the task to try again"
_MEND = "Clearing the task alone doesn't help: its log says what to mend"
_OTHER = "The Spark application or its job failed"
_WHY = {
    "AuthenticationError": "Kafka refused the credentials",
    "ClusterUnreachableError": "No Kafka broker answered",
    "ColumnChangedError": "A column has another type than in the table",
    "CommitConflictError": "Another load of the window came in between",
    "ConfigurationError": "An argument, connection or setting is wrong",
    "CountedTwiceError": "Rows were counted twice, as Spark may have read some again after losing an executor",
    "DataLossError": "Kafka no longer has all of the window's records",
    "DriverGoneError": "Spark's driver vanished",
    "ExtremeTimestampError": "A record has a timestamp that Spark can't read",
    "LedgerConflictError": "A file of the ledger contradicts what was to be recorded",
    "LedgerCorruptError": "A file of the ledger is missing or damaged",
    "LogTruncatedError": "The log was truncated since the window was pinned",
    "OffsetsError": "Kafka answered with an error",
    "RegistryError": "The schema registry refused the login, or lacks a schema",
    "RegistryUnreachableError": "The schema registry didn't answer",
    "StoreFailedError": "The ledger's store failed",
    "TopicChangedError": "The topic is missing, was re-created, or is on another cluster",
    "UncheckedSourceError": "Kafka couldn't be asked whether it was read from the right topics",
    "UndecodableError": "A key or value can't be decoded",
    "UnprovenError": "What was read or written isn't what the window has",
}
_HELPS = {
    "AuthenticationError": "Mend the connection's credentials, then clear the task",
    "ConfigurationError": "Mend it, then clear the task",
    "CountedTwiceError": f"{_CLEAR}; a job that sorts counts twice every time",
    "DataLossError": "Clearing the task doesn't bring them back: on_data_loss='load_rest' loads the rest, and records "
    "the loss",
    "ExtremeTimestampError": "Clearing the task doesn't help: on_data_loss='load_rest' loads the rest, and records the "
    "loss",
    "LedgerConflictError": "Clearing the task doesn't help: run kafka-offsets ledger verify",
    "LedgerCorruptError": "Clearing the task doesn't help: restore the file; kafka-offsets ledger verify names it",
    "LogTruncatedError": "Clearing the task doesn't help: see kafka-offsets ledger restart",
    "TopicChangedError": "Clearing the task doesn't help: see kafka-offsets ledger restart",
    "UnprovenError": "Clearing the task helps only once the job or the sink is mended",
}


def failure_of(ledger: Ledger, window: Window) -> Json | None:
    """Why the newest attempt at a window failed: as :func:`told`; without a note, that its counts prove nothing. None
    if there is no attempt."""
    newest = window.newest_attempt
    if newest is None:
        return None
    return told(ledger.attempt(window.name, newest.number).failure() or FailureNote("UnprovenError", ""))


def told(note: FailureNote) -> Json:
    """``error``, the exception's class; ``why``; and what ``helps``."""
    return {
        "error": note.error,
        "why": _WHY.get(note.error, _OTHER),
        "helps": _HELPS.get(note.error, _MEND if note.is_permanent else _CLEAR),
    }
