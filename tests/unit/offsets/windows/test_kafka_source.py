"""Which bounds of a window say whether its logs were cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.kafka_source import ends_seen, starts_seen, unknowable
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.unit.spark.manifests import manifest_of


def pinned(start: int | None, end: int | None, *, start_offset: int = 10) -> Manifest:
    """A window of one partition, up to offset 30, by the leader epochs of its start and end."""
    made = manifest_of([("t", 0, start_offset, 30)])
    ranges = tuple(replace(each, start_leader_epoch=start, end_leader_epoch=end) for each in made.ranges)
    topics = {topic: replace(each, topic_id="id") for topic, each in made.topics.items()}
    return replace(made, ranges=ranges, topics=topics)


class TestStart:
    @pytest.mark.parametrize(
        ("start", "end", "asked"),
        [
            pytest.param(3, 3, False, id="within an epoch nothing is cut"),
            pytest.param(4, 3, False, id="what is as it was at the end's epoch was so at the start's"),
            pytest.param(3, 4, True, id="it may have been cut between the two"),
            pytest.param(3, None, True, id="the end says nothing"),
            pytest.param(None, 3, False, id="it isn't known"),
        ],
    )
    def test_is_asked_for_where_the_end_does_not_speak_for_it(
        self, start: int | None, end: int | None, asked: bool
    ) -> None:
        manifest = pinned(start, end)
        assert starts_seen(manifest) == ([SeenOffset("t", 0, 10, 3)] if asked else [])
        assert ends_seen(manifest) == [SeenOffset("t", 0, 30, end)]


class TestUnknowable:
    @pytest.mark.parametrize(("start", "end"), [(None, 3), (3, None), (None, None)])
    def test_is_a_partition_of_which_one_bound_has_no_epoch(self, start: int | None, end: int | None) -> None:
        assert unknowable(pinned(start, end)) == ["the leader epochs of 1 partitions"]

    def test_is_not_the_start_of_a_whole_log_of_which_nothing_can_be_cut(self) -> None:
        assert unknowable(pinned(None, 3, start_offset=0)) == []
