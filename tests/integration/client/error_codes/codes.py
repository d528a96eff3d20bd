"""Every error code that an answer can carry, said by a scripted broker: what it is called, and what is done about it.

A code either passes (its partition or group is asked for again, and the place to ask is looked up anew if the code says
that it may be the wrong one), or it stays (it is data at once, after one request). In both cases the neighbours of what
is in error are none the worse for it. The tables say it of each code of each request, as a specification: they are
written out, and not derived from kafka-python's flags. Those that several requests share are here, the others are in
the tests beside this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from airflow_kafka_offsets.errors import ResponseError


class Code(NamedTuple):
    """An error code, and what is done about it.

    :param name: Kafka's own.
    :param looks_up: whether leader or coordinator are looked up anew before the next request; only codes that pass.
    :param why: the case of the catalogue, or what the broker means by it.
    """

    code: int
    name: str
    looks_up: bool = False
    why: str = ""


def each_of(*codes: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Run a test for each code."""
    table = [Code(*each) for each in codes]
    ids = [" ".join(filter(None, (each.why and f"{each.why}:", each.name))) for each in table]
    return pytest.mark.parametrize("code", table, ids=ids)


def outcome(error: ResponseError | None, value: Any = None) -> Any:
    """A value, or the name of the error that came instead."""
    return value if error is None else error.name


LEADER_PASSES = (
    (3, "UNKNOWN_TOPIC_OR_PARTITION", True, "not heard of it yet"),
    (5, "LEADER_NOT_AVAILABLE", True, "E26"),
    (6, "NOT_LEADER_OR_FOLLOWER", True, "E28"),
    (7, "REQUEST_TIMED_OUT", True),
    (9, "REPLICA_NOT_AVAILABLE", True),
    (13, "NETWORK_EXCEPTION", True),
    (56, "KAFKA_STORAGE_ERROR", True, "a broken disk, and another leader soon"),
    (89, "THROTTLING_QUOTA_EXCEEDED", False),
)
"""What a leader says that may pass, whatever it was asked."""
LEADER_STAYS = (
    (-1, "UNKNOWN_SERVER_ERROR"),
    (8, "BROKER_NOT_AVAILABLE"),
    (17, "INVALID_TOPIC_EXCEPTION"),
    (29, "TOPIC_AUTHORIZATION_FAILED"),
    (35, "UNSUPPORTED_VERSION"),
    (42, "INVALID_REQUEST"),
    (9999, "ERROR_9999", False, "newer than this client"),
)
"""What a leader says that stays, whatever it was asked."""
UNSUPPORTED_VERSION = 35
COORDINATOR_PASSES = (
    (7, "REQUEST_TIMED_OUT", True),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", False, "E30"),
    (15, "COORDINATOR_NOT_AVAILABLE", True, "E30"),
    (16, "NOT_COORDINATOR", True, "E30"),
)
"""What a coordinator says of a group that may pass, whatever it was asked."""
COORDINATOR_STAYS = (
    (-1, "UNKNOWN_SERVER_ERROR"),
    (24, "INVALID_GROUP_ID"),
    (30, "GROUP_AUTHORIZATION_FAILED"),
    (UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION"),
    (42, "INVALID_REQUEST"),
)
"""What a coordinator says of a group that stays, whatever it was asked."""
