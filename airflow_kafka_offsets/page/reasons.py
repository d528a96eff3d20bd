"""Why a load failed, and what helps, in words for somebody on call.

The class of an error says both without a driver's own message, which may quote a record: that one is only for users who
may read the logs of the Dag's tasks, where Airflow shows it too.
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote

Json = dict[str, Any]

_CLEAR = "Clear the task to try again"
_MEND = "Clearing the task alone doesn't help: its log says what to mend"
_OTHER = "The Spark application or its job failed"
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
    """Why a window's newest load was refused before it began, or its newest attempt failed: as :func:`told`; without a
    note, that its counts prove nothing. None if there is no attempt."""
    newest, refused = window.newest_attempt, window.refused
    if refused is not None:
        return told(FailureNote(refused.error, refused.message))
    if newest is None:
        return None
    return told(ledger.attempt(window.name, newest.number).failure() or FailureNote("UnprovenError", ""))


def told(note: FailureNote) -> Json:
    """``error``, the exception's class; ``why``, the first sentence of what that class says of itself; and what
    ``helps``."""
    kind = getattr(errors, note.error, None)
    is_ours = isinstance(kind, type) and issubclass(kind, errors.KafkaOffsetsError)
    words = " ".join((kind.__doc__ or _OTHER).split()) if is_ours else _OTHER
    return {
        "error": note.error,
        "why": words.replace("``", "").partition(". ")[0].rstrip("."),
        "helps": _HELPS.get(note.error, _MEND if note.is_permanent else _CLEAR),
    }
