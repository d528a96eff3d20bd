"""A program: what differs in kafka-python, and in the process, once this package's client has been imported and used.

Each thing that was there before and is another one now is a line.
"""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import kafka

Seen = dict[Hashable, Any]


def _import_all() -> None:
    for module in pkgutil.walk_packages(kafka.__path__, "kafka."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # for another platform
                importlib.import_module(module.name)


def _within(place: tuple[str, ...], values: Mapping[Any, Any]) -> Iterator[tuple[Hashable, Any]]:
    """What a module, class or registry holds."""
    for name, value in list(values.items()):
        here = (*place, str(name))
        yield here, value
        if isinstance(value, dict):
            yield from _within(here, value)
        elif isinstance(value, type) and value.__module__ == place[0]:
            yield from _within(here, vars(value))


def _seen() -> Seen:
    found: Seen = {}
    for name in [name for name in sys.modules if name.partition(".")[0] == "kafka"]:
        found |= _within((name,), {key: each for key, each in vars(sys.modules[name]).items() if key != "__builtins__"})
    return found


def _process() -> Seen:
    loggers = [logging.getLogger(), *(logging.getLogger(f"kafka{of}") for of in ("", ".net", ".net.connection"))]
    return {
        "environment": dict(os.environ),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "hooks": (sys.excepthook, threading.excepthook, logging.getLoggerClass(), logging.lastResort),
        "loggers": [(each.level, each.propagate, list(each.handlers)) for each in loggers],
        "sockets": (socket.getdefaulttimeout(), socket.getaddrinfo, socket.socket),
        "signals": [signal.getsignal(each) for each in signal.valid_signals()],
    }


def _use() -> None:
    from airflow_kafka_offsets.client import codec  # noqa: F401
    from airflow_kafka_offsets.client.connection.settings import ClientSettings
    from airflow_kafka_offsets.client.offsets_client import OffsetsClient
    from airflow_kafka_offsets.conditions import CONDITIONS  # noqa: F401
    from airflow_kafka_offsets.errors import ClusterUnreachableError
    from airflow_kafka_offsets.pipelines import resolver  # noqa: F401

    settings = ClientSettings.from_config({"bootstrap.servers": "127.0.0.1:1"})
    with OffsetsClient(settings, timeout_s=1) as client, suppress(ClusterUnreachableError):
        client.cluster_id()


if __name__ == "__main__":
    _import_all()
    kafka_before, process_before = _seen(), _process()
    _use()
    kafka_after, process_after = _seen(), _process()
    for place, value in kafka_before.items():
        if kafka_after.get(place) is not value:
            print(place, value, kafka_after.get(place))
    for what, before in process_before.items():
        if before != process_after[what]:
            print(what, before, process_after[what])
