"""Confs of a session that are set for a while: what Spark plans meanwhile goes by them, and the user's other work
doesn't, once nobody holds them any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.compat.spark_versions import confs_of
from airflow_kafka_offsets.spark.java import is_connect


@dataclass(slots=True)
class _Held:
    """A conf that is held.

    :param holders: how many hold it.
    :param given: what the session itself says; None where it doesn't.
    :param changed: whether it says something else meanwhile.
    """

    holders: int
    given: str | None
    changed: bool


_held: dict[tuple[str, str], _Held] = {}
_one_at_a_time = Lock()


@contextmanager
def held(spark: SparkSession, name: str, meanwhile: Callable[[str | None], str | None]) -> Iterator[None]:
    """Have a conf say something else while the block runs. Threads of one session may overlap: the first one sets it,
    and the last one puts it back.

    :param meanwhile: what it is to say, by what the session says now; None for that it stays as it is.
    """
    connected: Any = spark
    session = str(connected.session_id if is_connect(spark) else spark._jsparkSession.sessionUUID())
    key = session, name
    with _one_at_a_time:
        if key not in _held:
            given = confs_of(spark).get(name)
            wanted = meanwhile(given)
            if wanted is not None:
                spark.conf.set(name, wanted)
            _held[key] = _Held(0, given, changed=wanted is not None)
        _held[key].holders += 1
    try:
        yield
    finally:
        with _one_at_a_time:
            found = _held[key]
            found.holders -= 1
            if not found.holders:
                del _held[key]
                _put_back(spark, name, found)


def _put_back(spark: SparkSession, name: str, found: _Held) -> None:
    if found.changed and found.given is None:
        spark.conf.unset(name)
    elif found.changed:
        spark.conf.set(name, found.given or "")
