"""A program: what differs in kafka-python, and in the process, once this package's client has been imported, and used.

Each thing that was there before and is another one now is a line, and so is each new one in a registry.
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


def _filters() -> Seen:
    loggers = {name: each for name, each in logging.root.manager.loggerDict.items() if name.startswith("kafka")}
    return {name: list(getattr(each, "filters", ())) for name, each in loggers.items()}


def _import() -> None:
    import airflow_kafka_offsets

    for room in ("client", "conditions", "pipelines"):
        for module in pkgutil.walk_packages([f"{airflow_kafka_offsets.__path__[0]}/{room}"], f"{PACKAGE}.{room}."):
            importlib.import_module(module.name)


def _use() -> None:
    from airflow_kafka_offsets.client.connection.settings import ClientSettings
    from airflow_kafka_offsets.client.offsets_client import OffsetsClient
    from airflow_kafka_offsets.errors import ClusterUnreachableError

    settings = ClientSettings.from_config({"bootstrap.servers": "127.0.0.1:1"})
    with OffsetsClient(settings, timeout_s=1) as client, suppress(ClusterUnreachableError):
        client.cluster_id()


def _tell_changes(before: Seen, after: Seen) -> None:
    for place, value in before.items():
        now = after.get(place)
        if now is not value and not (place in PROCESS and now == value):
            print(place, value, now)
    for place in after.keys() - before.keys():
        if "_VERSIONS" not in place:  # where kafka-python keeps the class of a version, for whoever uses it first
            print(place, None, after[place])


def _others_lines() -> list[str]:
    """What a handler gets of the lines that another user's kafka-python logs."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kafka.net.connection")
    logger.addHandler(handler)
    logger.warning("of others")
    logger.removeHandler(handler)
    return lines


PACKAGE = "airflow_kafka_offsets"
PROCESS = ("environment", "warnings", "hooks", "loggers", "sockets", "signals")


if __name__ == "__main__":
    _import_all()
    before, filters = _seen() | _process(), _filters()
    _import()
    _tell_changes(before, _seen() | _process())
    if _filters() != filters:
        print("filters", filters, _filters())
    _use()
    _tell_changes(before, _seen() | _process())
    if _others_lines() != ["of others"]:
        print("lines of others", _others_lines())
