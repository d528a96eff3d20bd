"""Containers: partial failure is data until somebody asks for it to be raised."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_kafka_offsets.errors import InstantError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec, SpecKind
from tests.unit.offsets.builders import T0

LATEST = OffsetSpec.LATEST


def bad(partition: int, *, retriable: bool = False) -> ListedOffset:
    error = ResponseError("TOPIC_AUTHORIZATION_FAILED", 29, retriable)
    return ListedOffset("t", partition, LATEST, ListOutcome.ERROR, error=error)


def good(topic: str, partition: int) -> ListedOffset:
    return ListedOffset(topic, partition, LATEST, ListOutcome.FOUND, 1)


class TestContainer:
    def test_it_iterates_in_order_of_topic_and_number(self) -> None:
        container = ListedOffsets([good("b", 1), good("a", 10), good("a", 2)])
        assert [(each.topic, each.partition) for each in container] == [("a", 2), ("a", 10), ("b", 1)]
        assert container.topics() == ["a", "b"]
        assert TopicPartition("a", 10) in container

    def test_a_partition_that_was_not_asked_for_is_none(self) -> None:
        assert ListedOffsets([good("a", 0)]).lookup("a", 1) is None

    def test_good_and_bad_come_apart(self) -> None:
        container = ListedOffsets([good("t", 0), bad(1)])
        assert container.ok().partitions() == [TopicPartition("t", 0)]
        assert container.errors().partitions() == [TopicPartition("t", 1)]

    def test_raising_names_the_first_failures_and_counts_the_rest(self) -> None:
        container = ListedOffsets([bad(n) for n in range(10)])
        with pytest.raises(OffsetsError, match=r"t-0: TOPIC_AUTHORIZATION_FAILED \(29\).* and 7 more"):
            container.raise_for_errors()

    def test_without_errors_it_returns_itself(self) -> None:
        container = ListedOffsets([good("t", 0)])
        assert container.raise_for_errors() is container

    def test_an_error_is_retriable_when_all_of_it_is(self) -> None:
        with pytest.raises(OffsetsError) as mixed:
            ListedOffsets([bad(0), bad(1, retriable=True)]).raise_for_errors()
        assert not mixed.value.retriable


class TestSpec:
    @pytest.mark.parametrize("kind", [each for each in SpecKind if each is not SpecKind.TIMESTAMP])
    def test_every_named_spec_reads_back(self, kind: SpecKind) -> None:
        assert str(OffsetSpec.parse(kind)) == kind

    @pytest.mark.parametrize("special", [-1, -2, -3, -4, -5, -6, -(2**63)])
    def test_kafkas_special_values_are_no_instants(self, special: int) -> None:
        """The answer to them would be the log's end, its start, and so on, labelled as the answer to an instant."""
        with pytest.raises(InstantError, match=r"OffsetSpec\.LATEST"):
            OffsetSpec.at(special)
        with pytest.raises(InstantError, match=r"OffsetSpec\.LATEST"):
            OffsetSpec(SpecKind.TIMESTAMP, special)

    @pytest.mark.parametrize(
        "moment", [1_795_240_800, 1_795_240_800_000_000, 0, 2**63, True], ids=["s", "us", "0", "2**63", "True"]
    )
    def test_implausible_milliseconds_are_refused(self, moment: int) -> None:
        """E35"""
        with pytest.raises(InstantError):
            OffsetSpec.at(moment)

    @pytest.mark.parametrize("moment", ["1970-01-01T00:00:00Z", "1971-03-04T05:06:07Z", "9999-12-31T23:59:59.999Z"])
    def test_a_moment_with_a_zone_is_an_instant_whenever_it_was(self, moment: str) -> None:
        assert OffsetSpec.at(datetime.fromisoformat(moment)) == OffsetSpec.parse(moment)
        assert str(OffsetSpec.parse(moment)).startswith(moment[:19])

    def test_moments_before_1970_are_refused(self) -> None:
        with pytest.raises(InstantError, match="before 1970"):
            OffsetSpec.at(datetime(1969, 12, 31, tzinfo=UTC))

    def test_an_instant_reads_back(self) -> None:
        assert OffsetSpec.parse("2026-11-21T06:00:00Z") == OffsetSpec.at(T0)
