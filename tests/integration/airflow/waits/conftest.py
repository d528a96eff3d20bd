"""What tests of group lag share, and the log lines that tests of other waits read too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor
from tests.integration.airflow.conftest import Context
from tests.integration.client.cases import workload
from tests.integration.client.cases.workload import new_name
from tests.integration.conftest import MakeTopic, Produce

MakeGroup = Callable[[str, Mapping[int, int]], str]
Look = Callable[..., Progress]


@pytest.fixture
def group(client: OffsetsClient) -> MakeGroup:
    """Makes a group with commits on some partitions of a topic."""

    def make(topic: str, offsets: Mapping[int, int]) -> str:
        name = new_name("group")
        workload.commit(client, name, {TopicPartition(topic, number): offset for number, offset in offsets.items()})
        return name

    return make


@pytest.fixture
def look(client: OffsetsClient, context: Context) -> Look:
    """Check once what a group lag sensor with these arguments waits for; files on other sensors have their own."""

    def check(groups: str | list[str], **arguments: object) -> Progress:
        return KafkaGroupLagSensor(task_id="s", groups=groups, **arguments).condition(context).check(client)

    return check


@pytest.fixture
def spread(topic: MakeTopic, produce: Produce) -> str:
    """Four partitions of five records."""
    name = topic(partitions=4)
    for partition in range(4):
        produce(name, partition, [(None, None, b"x")] * 5)
    return name


@pytest.fixture
def said() -> Iterator[list[MutableMapping[str, Any]]]:
    """What is logged, by the level that users have and not by that of tests."""
    before = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        structlog.configure(wrapper_class=before)
