"""What is on the wire and never leaves the client: Kafka's error codes and kafka-python's exceptions, which become
:class:`.errors.ResponseError`; -1, which becomes None; and rows that kafka-python accepts instead of its own objects.

kafka-python knows whether an error is transient and whether it means that a known leader is stale (``retriable`` and
``invalid_metadata`` of its error classes, which follow the Java client's).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import IntEnum

import kafka.errors as kafka_errors

from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic


class Code(IntEnum):
    """Error codes under Kafka's own names (``org.apache.kafka.common.protocol.Errors``, 4.3): those that this client
    acts on, and those that kafka-python names differently."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_REPLICA_ASSIGNMENT = 39
    GROUP_ID_NOT_FOUND = 69
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    THROTTLING_QUOTA_EXCEEDED = 89
    UNKNOWN_TOPIC_ID = 100
    STALE_MEMBER_EPOCH = 113


_STALE_BESIDES = (Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
"""Errors after which leader or coordinator is looked up again although ``invalid_metadata`` is not set: a broker that
doesn't answer may no longer be the leader, and kafka-python's flag doesn't cover coordinators
(COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)."""

MALFORMED = (TypeError, ValueError, LookupError, AttributeError)
"""Exceptions from reading an answer that decodes but isn't valid, for example null in place of a mandatory list."""

_NAMES = {code.value: code.name for code in Code}
_ERRNO = re.compile(r"(\d+) E[A-Z]+")


def response_error(code: int, message: str | None = None) -> ResponseError | None:
    """Kafka's error for a code; None for code 0."""
    if code == Code.NONE:
        return None
    kind = kafka_errors.for_code(code)
    name = _NAMES.get(code) or (kind.message if code in kafka_errors.kafka_errors else f"ERROR_{code}")
    return ResponseError(name, int(code), bool(kind.retriable), message or "")


def named_error(code: int, message: str) -> ResponseError:
    """An error that the client itself detected, under Kafka's code for it."""
    error = response_error(code, message)
    assert error is not None
    return error


def left_out(address: str) -> ResponseError:
    """The error of a piece (partition or group) that is missing from a broker's answer."""
    return named_error(Code.UNKNOWN_SERVER_ERROR, f"{address} left it out of its answer")


def client_error(error: BaseException, address: str) -> ResponseError:
    """An exception that replaced an answer, under the code of Kafka's own client: 7 for a timeout, 35 for an
    unsupported version, 13 for the rest.

    :param address: the broker asked, for the message.
    """
    if isinstance(error, kafka_errors.IncompatibleBrokerVersion):
        return named_error(error.errno, f"{address}: {_words(error)}")
    if isinstance(error, ClusterUnreachableError):
        # It says itself what couldn't be reached, to get a token.
        return named_error(Code.NETWORK_EXCEPTION, str(error).removesuffix("."))
    if isinstance(error, (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)):
        return named_error(Code.REQUEST_TIMED_OUT, f"{address} did not answer in time")
    return named_error(Code.NETWORK_EXCEPTION, f"{address}: {_words(error)}")


def _words(error: BaseException) -> str:
    if isinstance(error, (kafka_errors.KafkaProtocolError, *MALFORMED)):
        return f"the answer is not in Kafka's protocol ({error}; does security.protocol match this port?)"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = " ".join(map(str, error.args)) or getattr(error, "message", None) or type(error).__name__
    if text == "socket disconnected":
        return "the broker closed the connection (does security.protocol match this port?)"
    return _ERRNO.sub(lambda match: os.strerror(int(match[1])).lower(), text)


def is_stale(error: ResponseError) -> bool:
    """Whether the broker asked may no longer be the leader or coordinator."""
    return bool(kafka_errors.for_code(error.code).invalid_metadata) or error.code in _STALE_BESIDES


def or_none(number: int | None) -> int | None:
    """None for -1, and for a field that the version doesn't have."""
    return None if number is None or number < 0 else number


def or_minus_one(number: int | None) -> int:
    """-1 for None."""
    return -1 if number is None else number


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """A row per topic: its name and its partition numbers, in order."""
    return [(topic, [piece.partition for piece in pieces]) for topic, pieces in by_topic(partitions).items()]
