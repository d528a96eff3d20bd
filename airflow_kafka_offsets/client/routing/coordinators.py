"""Coordinators: the broker that keeps a group's commits (FindCoordinator, key 10). The fan-out's locator for groups.

Any broker can answer: for all groups in one request from version 4 on (KIP-699, Kafka 3.0), one per request before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.connection.wire import Code, named_error, response_error
from airflow_kafka_offsets.client.routing.any_broker import ask_any
from airflow_kafka_offsets.errors import ResponseError

_GROUP = 0
"""Kafka's key type for group coordinators (as opposed to transaction coordinators)."""
_BATCHED = 4


def coordinator_requests(groups: Collection[str], version: int) -> list[Any]:
    """One request for all groups, or one per group if the broker is too old."""
    if version >= _BATCHED:
        return [FindCoordinatorRequest[version](key_type=_GROUP, coordinator_keys=list(groups))]
    return [FindCoordinatorRequest[version](key_type=_GROUP, key=group) for group in groups]


def parse_coordinators(groups: Collection[str], responses: Iterable[Any]) -> dict[str, Any]:
    """Each group's row: ``node_id``, ``host``, ``port``, ``error_code`` and ``error_message``, in any version."""
    rows: dict[str, Any] = {}
    for group, response in zip(groups, responses, strict=False):
        if response.API_VERSION >= _BATCHED:
            return {row.key: row for row in response.coordinators}
        rows[group] = response
    return rows


def coordinator_of(row: Any | None) -> int | ResponseError:
    """The coordinator's id, or why there is none."""
    if row is None:
        return named_error(Code.UNKNOWN_SERVER_ERROR, "the broker left the group out of its answer")
    error = response_error(row.error_code, row.error_message)
    return int(row.node_id) if error is None else error


class Coordinators:
    """Coordinators of groups, cached between calls. Entries that prove stale are dropped."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._coordinators: dict[str, int] = {}

    async def locate(self, pieces: Collection[str], deadline: Deadline) -> Mapping[str, int | ResponseError]:
        """The coordinator of each group, or Kafka's error for that group alone.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        # Read the cache before awaiting anything: another fan-out may drop entries in the meantime.
        found: dict[str, int | ResponseError] = {
            group: self._coordinators[group] for group in pieces if group in self._coordinators
        }
        unknown = [group for group in pieces if group not in found]
        rows = await self._ask(unknown, deadline) if unknown else {}
        for group in unknown:
            coordinator = found[group] = coordinator_of(rows.get(group))
            if isinstance(coordinator, int):
                self._coordinators[group] = coordinator
                self._transport.connections.learn_coordinator(rows[group])
        return found

    async def _ask(self, groups: list[str], deadline: Deadline) -> dict[str, Any]:
        async def ask(node: NodeId, attempt: Deadline) -> dict[str, Any]:
            version = await self._transport.version(node, FindCoordinatorRequest, attempt)
            requests = coordinator_requests(groups, version)
            send = [partial(self._transport.send, node, request, attempt) for request in requests]
            return parse_coordinators(groups, await self._transport.gather(send))

        return await ask_any(self._transport, ask, deadline)

    def drop(self, pieces: Iterable[str]) -> None:
        """Drop these groups from the cache, so that they are looked up again."""
        for group in pieces:
            self._coordinators.pop(group, None)
