"""Conditions: what a task can wait for, each a plain check that anybody may call with a client, without Airflow."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete

CONDITIONS: Mapping[str, type[Condition]] = {
    each.kind: each for each in (GroupsCaughtUp, OffsetsReached, WindowComplete, NewData)
}
"""Every condition that a sensor waits for, by its name in a trigger's JSON."""
