"""Quiet logs: kafka-python's own log lines, kept for those who ask for DEBUG.

Every failure that kafka-python logs as WARNING or ERROR, some with a traceback and once per retry, comes back to the
caller as a result or as one exception. Only lines of this client's own I/O threads are held back: other users of
kafka-python in the same process keep theirs.
"""

from __future__ import annotations

import logging

IO_LOOP = "airflow-kafka-offsets"
"""The name of this client's I/O loops. kafka-python names their threads after it."""

_THREAD = f"kafka-io-{IO_LOOP}"
_LOGGERS = (
    "kafka.cluster",
    "kafka.future",
    "kafka.net.connection",
    "kafka.net.inet",
    "kafka.net.manager",
    "kafka.net.sasl.gssapi",
    "kafka.net.sasl.plain",
    "kafka.net.sasl.scram",
    "kafka.net.selector",
    "kafka.net.transport",
    "kafka.protocol.parser",
)


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def quiet_kafka_logs() -> None:
    """Hold back what our I/O threads log, unless the logger is set to DEBUG. Asking twice has no effect."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_wanted)
