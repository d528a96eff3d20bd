"""A log that was cut and has grown past its old end again: what waits and groups make of offsets of before."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.sensors.group_sensors import KafkaOffsetsReachedSensor
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaNewDataSensor
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from tests.integration.airflow.conftest import Context, fails_with
from tests.integration.airflow.windows.cluster.conftest import Cut
from tests.integration.airflow.windows.conftest import Snapshot, XCom
from tests.patience import wait_until


class TestWaits:
    """A target is a number, and so is what a group commits; the records before it aren't the ones that were
    there when it was pinned."""

    @pytest.fixture
    def target(self, cut: Cut, snapshot: Snapshot) -> XCom:
        """Where the log ends before it is cut: 7."""
        return snapshot(cut.topic)

    def cut_and_read(self, cut: Cut, client: OffsetsClient, group: str) -> None:
        """Cut the log, have it grow past the target, and the group read all that is there now."""
        cut.elect()
        cut.grow(11, 12, 13, 14, 15, 16)
        (extent,) = client.log_extents([TopicPartition(cut.topic, 0)]).raise_for_errors()
        assert extent.high_watermark == 9
        commit = CommittedOffset(cut.topic, 0, 9, extent.leader_epoch)
        client.commit_offsets(group, CommittedOffsets([commit])).raise_for_errors()

    def test_a_group_that_has_read_on_has_not_reached_a_target_of_before(
        self, cut: Cut, client: OffsetsClient, target: XCom, context: Context
    ) -> None:
        """S15."""
        group = f"g-{cut.topic}"
        self.cut_and_read(cut, client, group)
        sensor = KafkaOffsetsReachedSensor(task_id="s", group=group, target=target, poke_interval=1)
        with pytest.raises(AirflowFailException, match=rf"{cut.topic}-0 was truncated at 3, below 7") as failed:
            sensor.execute(context)
        assert fails_with(LogTruncatedError, failed)

    @pytest.mark.nightly("brokers that die; the test above has a wait on a log that was cut")
    def test_nor_the_log_end_of_when_the_task_began(self, cut: Cut, client: OffsetsClient, context: Context) -> None:
        group = f"g-{cut.topic}"
        sensor = KafkaOffsetsReachedSensor(task_id="s", group=group, topics=cut.topic)
        client.commit_offsets(group, CommittedOffsets([CommittedOffset(cut.topic, 0, 1)])).raise_for_errors()
        assert not sensor.poke(context)
        self.cut_and_read(cut, client, group)
        with pytest.raises(AirflowFailException, match=rf"{cut.topic}-0 was truncated at 3, below 7"):
            sensor.poke(context)

    @pytest.mark.nightly("brokers that die; the first test has a wait on a log that was cut")
    def test_what_is_new_since_before_is_not_told_by_the_numbers(
        self, cut: Cut, client: OffsetsClient, target: XCom, context: Context
    ) -> None:
        self.cut_and_read(cut, client, f"g-{cut.topic}")
        pipeline = KafkaPipeline("loads", cut.topic)
        sensor = KafkaNewDataSensor(task_id="s", pipeline=pipeline, since=target, poke_interval=1)
        with pytest.raises(AirflowFailException, match=rf"{cut.topic}-0 was truncated at 3, below 7"):
            sensor.execute(context)

    @pytest.mark.nightly("brokers that die; the first test has a wait on a log that was cut")
    def test_a_new_leader_that_has_all_records_changes_nothing(
        self, cut: Cut, client: OffsetsClient, target: XCom, context: Context
    ) -> None:
        cut.behind.launch()
        wait_until(lambda: len(cut.cluster.in_sync(cut.topic, 0)) == 2, "the other replica has caught up")
        cut.ahead.kill()
        wait_until(cut.elected, "the other replica leads")
        group = f"g-{cut.topic}"
        client.commit_offsets(group, CommittedOffsets([CommittedOffset(cut.topic, 0, 7)])).raise_for_errors()
        result = KafkaOffsetsReachedSensor(task_id="s", group=group, target=target, poke_interval=1).execute(context)
        assert "unknowable" not in result


async def first_event(trigger: KafkaWaitTrigger) -> Any:
    async with aclosing(trigger.run()) as events:  # type: ignore[type-var]  # an async generator
        async for each in events:
            return each.payload
    raise AssertionError("a wait ends with an event")
