"""Kafka's words and Python's: the fields of a golden message in the one and in the other, and the names of errors."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import ResponseError

OTHER_NAMES = {
    "clusterAuthorizedOperations": "authorized_operations",
    "topicAuthorizedOperations": "authorized_operations",
}
"""kafka-python's names for fields, where they aren't Kafka's in snake case."""
NO_OPERATIONS = -(2**31)


def in_kafkas_words(message: Any, like: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message that a golden one has, as Kafka's JSON gives them."""
    return {name: _kafkas_value(getattr(message, python_name(name)), name, value) for name, value in like.items()}


def _kafkas_value(value: Any, name: str, like: Any) -> Any:
    if isinstance(like, list) and value is not None:
        likes = [*like, *[None] * len(value)]
        return [
            in_kafkas_words(each, other) if isinstance(other, dict) else each
            for each, other in zip(value, likes, strict=False)
        ]
    if isinstance(like, dict):
        return in_kafkas_words(value, like)
    if name.endswith("topicId"):
        return base64.urlsafe_b64encode((value or uuid.UUID(int=0)).bytes).decode().rstrip("=")
    if name.lower().endswith("authorizedoperations"):
        return NO_OPERATIONS if value is None else value if isinstance(value, int) else sum(1 << bit for bit in value)
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode()
    return value


def in_pythons_words(message_class: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a message's class for a golden message."""
    return {python_name(name): _pythons_value(message_class, python_name(name), each) for name, each in fields.items()}


def _pythons_value(message_class: Any, name: str, value: Any) -> Any:
    if isinstance(value, dict):
        inner_class = message_class.fields[name].data_class
        return inner_class(**in_pythons_words(inner_class, value))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_pythons_value(message_class, name, each) for each in value]
    if name == "topic_id":
        return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    return value


def python_name(name: str) -> str:
    return OTHER_NAMES.get(name) or re.sub(r"(?=[A-Z])", "_", name).lower()


def name_of(error: ResponseError | None) -> str | None:
    return None if error is None else error.name
