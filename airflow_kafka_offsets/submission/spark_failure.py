"""Why Spark failed, as one exception: the driver's note in the ledger, else the last output of ``spark-submit``.

The provider's own exception begins with a command of some thousand characters, and ends with Spark's shutdown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress

from airflow.providers.common.compat.sdk import AirflowException

from airflow_kafka_offsets.errors import KafkaOffsetsError, SparkFailedError
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.offsets.proof.driver_notes import EXIT_MARK, FailureNote, one_line

log = logging.getLogger(__name__)

_EXIT = "Cannot execute: "
"""How the provider's exception begins when spark-submit exits with a status other than 0."""
_NAMED = re.compile(r"([A-Z]\w*Error): (.+)")
_PLACE = re.compile(r'File "[^"]*", line \d+, in \S+')
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")
_JVM = re.compile(r'Exception in thread "[^"]*" (.+)|Error: (.+)')
_STATUS = re.compile(r"Error code is: (-?\d+)")


def spark_failure(output: Sequence[str], error: Exception) -> Exception:
    """The exception for the task if no driver has noted why it failed. It decides whether the task is retried.

    :param output: the last output of ``spark-submit``, including the driver's if that ran here.
    :param error: the provider's exception, returned if nothing says more.
    """
    exited = isinstance(error, AirflowException) and str(error).startswith(_EXIT)
    if isinstance(error, KafkaOffsetsError) or not exited:
        return error
    printed = printed_failure(output)
    if printed is not None:
        return printed.as_error()
    status = _STATUS.search(str(error))
    how = "failed" if status is None else f"ended with status {status[1]}"
    said = last_words(output)
    return SparkFailedError(f"spark-submit {how}: {said} All of its output is above, in the task's log.")


def noted_failure(attempt: AttemptFiles) -> FailureNote | None:
    """Why an attempt failed, as the ledger has it; None if nobody has noted that, or if it can't be read now."""
    with suppress(Exception):  # each store has its own errors; the failure itself must come through
        return attempt.failure()
    return None


def printed_failure(output: Sequence[str]) -> FailureNote | None:
    """The last line of the ready-made load, if it failed; it may have failed before it could note that."""
    marked = [line.removeprefix(EXIT_MARK) for line in output if line.startswith(EXIT_MARK)]
    found = _NAMED.fullmatch(marked[-1]) if marked else None
    return None if found is None else FailureNote(found[1], one_line(found[2]))


def last_words(output: Sequence[str]) -> str:
    """The last words of a traceback, else of Java, else the last lines."""
    lines = list(filter(None, output))
    places = [number for number, line in enumerate(lines) if _PLACE.match(line)]
    if places:
        # The source follows the place; the provider's strip() has removed its indentation.
        rest = lines[places[-1] + 2 :]
        raised = next((number for number, line in enumerate(rest) if _RAISED.fullmatch(line)), None)
        if raised is not None:
            cause = [line for line in rest[raised + 1 : raised + 2] if line.startswith(":")]  # Java's, by py4j
            return f"{one_line(' '.join([rest[raised], *cause]))} ({one_line(lines[places[-1]])})."
    for line in reversed(lines):
        if found_jvm := _JVM.match(line):
            return _sentence(found_jvm[1] or found_jvm[2])
    return _sentence(" / ".join(lines[-3:])) if lines else "nothing was printed."


def _sentence(text: str) -> str:
    return f"{one_line(text).rstrip('.')}."
