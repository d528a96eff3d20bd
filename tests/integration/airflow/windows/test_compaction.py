"""Windows of a compacted topic: offsets without records. On a broker whose cleaner doesn't wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dev.cluster import KafkaCluster
from tests.integration.airflow.conftest import Resolve, use_connection
from tests.integration.airflow.windows.conftest import Increment, manifest_of, ranges
from tests.integration.client.cases.workload import HOUR_MS, T0, new_compacted_topic, records


@pytest.fixture(autouse=True)
def connection(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks' connection leads to the cluster."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": cluster.bootstrap_servers})


def hour(number: float) -> str:
    """So many hours after the topic's first record."""
    return (datetime.fromtimestamp(T0 / 1000, UTC) + timedelta(hours=number)).isoformat()


@pytest.fixture(scope="module")
def compacted(running_cluster: KafkaCluster) -> str:
    """Twenty offsets, an hour apart, of which some have no record any more."""
    return new_compacted_topic(running_cluster)


def test_a_boundary_stands_at_a_record_that_is_left(cluster: KafkaCluster, compacted: str, resolve: Resolve) -> None:
    """E11: the first one that is late enough, of those that the cleaner has left by then."""
    late_enough = [each.offset for each in records(cluster, compacted) if each.timestamp >= T0 + 5 * HOUR_MS]
    ((_, start, end),) = ranges(resolve(compacted, hour(5), hour(30)))
    still = [each.offset for each in records(cluster, compacted) if each.timestamp >= T0 + 5 * HOUR_MS]
    assert start in late_enough
    assert (start <= min(still), end) == (True, 20)


def test_offsets_are_an_upper_bound_on_records_and_the_manifest_says_why(
    cluster: KafkaCluster, compacted: str, increment: Increment
) -> None:
    """E11, S14: the log starts at offset 0, whatever the cleaner has taken."""
    window = increment(compacted, "run-1")
    assert ranges(window) == [(0, 0, 20)]
    assert len(records(cluster, compacted)) < window["offsets"]
    assert manifest_of(window).topics[compacted].compacted
