"""Errors: what a retry may help with."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import ResponseError


@pytest.mark.parametrize(
    ("name", "code", "retriable", "may_pass"),
    [
        ("LEADER_NOT_AVAILABLE", 5, True, True),
        ("INCONSISTENT_TOPIC_ID", 103, True, True),
        ("UNKNOWN_TOPIC_OR_PARTITION", 3, True, False),
        ("UNKNOWN_TOPIC_ID", 100, True, False),
        ("TOPIC_AUTHORIZATION_FAILED", 29, False, False),
    ],
)
def test_an_unknown_topic_is_final_although_kafka_says_retriable(
    name: str, code: int, retriable: bool, may_pass: bool
) -> None:
    assert ResponseError(name, code, retriable).may_pass is may_pass
