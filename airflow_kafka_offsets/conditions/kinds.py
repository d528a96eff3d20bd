"""The kinds of condition, and how each is read from a trigger's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

_KINDS: Mapping[str, type[Condition]] = {
    each.kind: each for each in (GroupsCaughtUp, OffsetsReached, WindowComplete, NewData)
}


def condition_from_json(fields: Mapping[str, Any]) -> Condition:
    """The inverse of :meth:`.condition.Condition.to_json`."""
    arguments = {name: _value(name, value) for name, value in fields.items() if name != "kind"}
    return _KINDS[fields["kind"]](**arguments)


def _value(name: str, value: Any) -> Any:
    if name == "isolation_level":
        return IsolationLevel(value)
    if isinstance(value, Mapping):
        return FixedOffsets.from_json(value)
    return tuple(value) if isinstance(value, list) else value
