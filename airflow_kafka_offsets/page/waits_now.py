"""How far waits have come, asked of Kafka when somebody presses the button: by the triggerer's own conditions.

Only through the page's own connection, and only for waits on the same brokers. Of others, and of sensors that aren't
deferred, whose limits only their own process knows, the task's log says it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from airflow_kafka_offsets.conditions.condition import Outcome, Progress, check_all
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page.kafka_now import page_kafka_conn_id
from airflow_kafka_offsets.page.waits import Wait

log = logging.getLogger(__name__)

Json = dict[str, Any]
_MOST_S = 10.0
"""Deadline of each question, in seconds. Conditions that look at records ask a second one."""
_MOST_ASKED = 100
"""How many conditions are checked at a time: those that have waited longest."""


def waits_now(found: Sequence[Wait]) -> Json:
    """What the page shows of waits, with ``now`` of each: how far it has come, in words; None if Kafka wasn't asked.

    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    own = page_kafka_conn_id()

    @cache
    def is_asked(conn_id: str) -> bool:
        return conn_id == own or _brokers(conn_id) == _brokers(own) != frozenset()

    asked = [each for each in found if each.condition is not None and is_asked(each.shown["kafka_conn_id"])]
    conditions = list(dict.fromkeys(each.condition for each in asked if each.condition is not None))[:_MOST_ASKED]
    asked_ms = now_ms()
    with KafkaOffsetsHook(own).get_conn(_MOST_S) as client:
        told = {each: _words(outcome) for each, outcome in check_all(client, conditions).items()}
    answered = {id(each): told.get(each.condition) for each in asked if each.condition is not None}
    shown = [each.shown | {"now": answered.get(id(each))} for each in found]
    return {"asked_ms": asked_ms, "waits": shown}


def _brokers(conn_id: str) -> frozenset[str]:
    """The brokers that a connection names; empty if it can't be read."""
    try:
        return frozenset(KafkaOffsetsHook(conn_id).settings().bootstrap_servers)
    except Exception as error:  # connections raise many types
        log.warning("The page can't read the connection %s: %s", conn_id, error)
        return frozenset()


def _words(outcome: Outcome) -> str:
    """How far a wait has come. Kafka's own words for an error may name brokers and settings, and aren't told."""
    if isinstance(outcome, Progress):
        return f"{outcome.summary}: done" if outcome.done else outcome.summary
    log.warning("The page can't tell how far a wait has come: %s", outcome)
    if isinstance(outcome, OffsetsError):
        return f"unknown: {', '.join(sorted({f'{what}: {error.name}' for what, error in outcome.failures})[:3])}"
    return f"unknown ({type(outcome).__name__})"
