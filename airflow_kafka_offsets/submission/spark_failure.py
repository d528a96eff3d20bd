"""Why Spark failed, in one exception: what the driver noted in the ledger, else what ``spark-submit`` printed last.

The provider's own exception begins with a command of some thousand characters, and ends with Spark's shutdown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress

from airflow.providers.common.compat.sdk import AirflowException

from airflow_kafka_offsets.errors import KafkaOffsetsError, SparkFailedError
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.proof.driver_notes import EXIT_MARK, FailureNote, one_line

log = logging.getLogger(__name__)

_EXIT = "Cannot execute: "
"""How the provider's exception begins when spark-submit ends with another status than 0."""
_NAMED = re.compile(r"([A-Z]\w*Error): (.+)")
_OURS = re.compile(rf"airflow_kafka_offsets\.errors\.{_NAMED.pattern}")
_TRACEBACK = "Traceback (most recent call last):"
_OUTERMOST = re.compile(r'File "[^"]*", line \d+, in <module>')
_PLACE = re.compile(r'File "[^"]*", line \d+, in \S+')
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")
_JVM = re.compile(r'Exception in thread "[^"]*" (.+)|Error: (.+)')
_STATUS = re.compile(r"Error code is: (-?\d+)")


def spark_failure(folder: WindowFolder, attempt: str, output: Sequence[str], error: Exception) -> Exception:
    """The exception for the task: which one decides whether it is tried again.

    :param attempt: the attempt that failed.
    :param output: what ``spark-submit`` printed last, as far as the driver ran here.
    :param error: the provider's exception. It stays where nobody says more.
    """
    if isinstance(error, KafkaOffsetsError):
        return error
    note = noted_failure(folder, attempt)
    exited = isinstance(error, AirflowException) and str(error).startswith(_EXIT)
    if note is None and exited:
        note = printed_failure(output)
    if note is not None:
        return note.as_error()
    if not exited:
        return error
    status = _STATUS.search(str(error))
    how = "failed" if status is None else f"ended with status {status[1]}"
    said = last_words(output)
    return SparkFailedError(f"spark-submit {how}: {said} All that it printed is above, in the task's log.")


def noted_failure(folder: WindowFolder, attempt: str) -> FailureNote | None:
    """What the driver noted; None without a note, and when it can't be read now."""
    with suppress(Exception):  # each store has its own; the failure itself must come through
        return folder.failure(attempt)
    return None


def printed_failure(output: Sequence[str]) -> FailureNote | None:
    """An error of this package that ended the application before it could note it: the ready-made load's own last line,
    or one that doesn't pass and that the last traceback raised out of the program. One that the application logged and
    went on from isn't among them, and neither is a line that only looks like one."""
    marked = [line.removeprefix(EXIT_MARK) for line in output if line.startswith(EXIT_MARK)]
    found = _NAMED.fullmatch(marked[-1]) if marked else _raised_out(output)
    if found is None:
        return None
    note = FailureNote(found[1], one_line(found[2]))
    return note if marked or note.is_permanent else None


def _raised_out(output: Sequence[str]) -> re.Match[str] | None:
    """What of ours the last traceback ends with, where it begins in the program's outermost frame."""
    lines = list(filter(None, output))
    begun = [number for number, line in enumerate(lines) if line == _TRACEBACK]
    raised = _last_raised(lines)
    if not begun or raised is None or not _OUTERMOST.match(next(iter(lines[begun[-1] + 1 :]), "")):
        return None
    return _OURS.fullmatch(lines[raised[1]])


def _last_raised(lines: Sequence[str]) -> tuple[int, int] | None:
    """Where the last traceback names its innermost place, and where what was raised; None without a traceback."""
    places = [number for number, line in enumerate(lines) if _PLACE.match(line)]
    if not places:
        return None
    # After the place comes its source, which the provider's strip() has brought to the line's start.
    first = places[-1] + 2
    raised = (number for number in range(first, len(lines)) if _RAISED.fullmatch(lines[number]))
    found = next(raised, None)
    return None if found is None else (places[-1], found)


def last_words(output: Sequence[str]) -> str:
    """What a traceback, or else Java, said last; or else the last lines."""
    lines = list(filter(None, output))
    found = _last_raised(lines)
    if found is not None:
        place, raised = found
        cause = [line for line in lines[raised + 1 : raised + 2] if line.startswith(":")]  # Java's, by py4j
        return f"{one_line(' '.join([lines[raised], *cause]))} ({one_line(lines[place])})."
    for line in reversed(lines):
        if found_jvm := _JVM.match(line):
            return _sentence(found_jvm[1] or found_jvm[2])
    return _sentence(" / ".join(lines[-3:])) if lines else "nothing was printed."


def _sentence(text: str) -> str:
    return f"{one_line(text).rstrip('.')}."
