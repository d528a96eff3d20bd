"""What tests of waits and watchers on a whole Airflow share."""

from __future__ import annotations

from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.kafka import Broker
from tests.integration.client.cases.workload import connected_client

DEADLINE_S = 600.0


def commit(broker: Broker, topic: str, offset: int | None, *groups: str) -> None:
    """Commit an offset on all partitions of a topic; None for the end of each."""
    with connected_client(broker.bootstrap_servers) as client:
        ends = client.list_offsets(client.partitions_of([topic]), OffsetSpec.LATEST).raise_for_errors()
        pieces = [
            CommittedOffset(each.topic, each.partition, each.offset if offset is None else offset) for each in ends
        ]
        for group in groups:
            client.commit_offsets(group, CommittedOffsets(pieces)).raise_for_errors()
