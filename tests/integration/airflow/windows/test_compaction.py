"""Windows of a compacted topic: offsets without records. On a broker whose cleaner doesn't wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from dev.cluster import KafkaCluster
from tests.integration.airflow.conftest import Context, Resolve, use_connection
from tests.integration.airflow.loads import publish_rows
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


def test_gaps_are_explained_although_the_cleaner_has_gone_on_since_the_load(
    cluster: KafkaCluster, compacted: str, increment: Increment, context: Context
) -> None:
    """E11, S14: the load read a record more than the log has by now."""
    left = [each.offset for each in records(cluster, compacted)]
    window = increment(compacted, "run-1")
    taken = next(each for each in range(20) if each not in left)
    publish_rows(window, compacted, sorted([*left, taken]))
    report = KafkaVerifyWindowOperator(task_id="v", window=window, explain_gaps=True).execute(context)
    causes = report["explained"]
    assert causes["removed_since"] >= 1
    assert (causes["markers"], causes["aborted"], causes["compacted"]) == (0, 0, report["gaps"])
