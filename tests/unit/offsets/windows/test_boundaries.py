"""Resolving: from leaders' answers to boundaries, and the chain that never runs backwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    InstantError,
    LogTruncatedError,
    OffsetsError,
    OutdatedSurveyError,
    ResponseError,
    TopicChangedError,
)
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows import boundaries
from airflow_kafka_offsets.offsets.windows.manifest import ranges_between
from airflow_kafka_offsets.offsets.windows.snapshots import Evidence, OffsetSnapshot, snapshot_warnings
from tests.unit.offsets.builders import (
    HOUR_MS,
    T0,
    boundary,
    extent,
    extents,
    found,
    listed,
    no_record,
    offsets_of,
    snapshot,
)

COMMITTED = IsolationLevel.READ_COMMITTED
P0 = TopicPartition("t", 0)


class TestAtInstant:
    def test_a_match_is_the_boundary(self) -> None:
        resolved = boundaries.at_instant(extents(extent()), listed(found(0, 40, T0 + 5)), COMMITTED)[P0]
        assert (resolved.offset, resolved.evidence, resolved.matched_timestamp_ms) == (40, Evidence.MATCHED, T0 + 5)

    def test_no_record_becomes_the_end_that_was_asked_before(self) -> None:
        """E2, S4, S5: the idle partition ends, and starts the next window, at its log end."""
        resolved = boundaries.at_instant(extents(extent(0, 0, 100, stable=90)), listed(no_record(0)), COMMITTED)[P0]
        assert (resolved.offset, resolved.evidence) == (90, Evidence.LOG_END)

    def test_read_uncommitted_ends_at_the_high_watermark(self) -> None:
        level = IsolationLevel.READ_UNCOMMITTED
        resolved = boundaries.at_instant(extents(extent(0, 0, 100, stable=90)), listed(no_record(0)), level)[P0]
        assert resolved.offset == 100

    def test_a_match_at_a_log_start_that_has_moved_says_so(self) -> None:
        """E9: earlier records at or after the instant may be gone."""
        resolved = boundaries.at_instant(extents(extent(0, 40, 100)), listed(found(0, 40, T0 + HOUR_MS)), COMMITTED)[P0]
        assert resolved.evidence is Evidence.LOG_START

    def test_a_match_at_offset_zero_is_a_match(self) -> None:
        resolved = boundaries.at_instant(extents(extent()), listed(found(0, 0, T0)), COMMITTED)[P0]
        assert resolved.evidence is Evidence.MATCHED

    def test_an_empty_partition_stands_at_its_end(self) -> None:
        """S6."""
        assert boundaries.at_instant(extents(extent(0, 7, 7)), listed(no_record(0)), COMMITTED)[P0].offset == 7

    def test_a_partition_in_error_sinks_the_snapshot_by_name(self) -> None:
        """E26: half a snapshot would be a wrong one for ever."""
        bad = ListedOffset("t", 0, OffsetSpec.at(T0), ListOutcome.ERROR, error=ResponseError("X", 1, True))
        with pytest.raises(OffsetsError, match="t-0"):
            boundaries.at_instant(extents(extent()), listed(bad), COMMITTED)

    def test_a_match_older_than_asked_is_refused(self) -> None:
        """E37: not Apache Kafka's answer."""
        older = found(0, 40, T0 - 1)._replace(outcome=ListOutcome.OLDER_THAN_ASKED)
        with pytest.raises(OffsetsError, match="older than asked"):
            boundaries.at_instant(extents(extent()), listed(older), COMMITTED)

    def test_an_instant_in_the_future_is_refused(self) -> None:
        """E36."""
        with pytest.raises(InstantError, match="future"):
            boundaries.refuse_future(T0 + 1, T0)


class TestOtherSnapshots:
    def test_latest_and_earliest_stand_at_the_ends(self) -> None:
        asked = extents(extent(0, 5, 100, stable=90))
        assert boundaries.at_latest(asked, COMMITTED)[P0].offset == 90
        assert boundaries.at_earliest(asked)[P0].offset == 5

    def test_commits_are_taken_as_they_are(self) -> None:
        commits = CommittedOffsets([CommittedOffset("t", 0, 0)])
        assert boundaries.at_commits(extents(extent()), commits, "g")[P0].offset == 0

    @pytest.mark.parametrize("committed", [4, 101], ids=["E9: below the log start", "E17: past the log's end"])
    def test_a_commit_that_the_log_does_not_hold_is_refused(self, committed: int) -> None:
        commits = CommittedOffsets([CommittedOffset("t", 0, committed)])
        with pytest.raises(OffsetsError, match=f"committed {committed}, the log holds 5 to 100"):
            boundaries.at_commits(extents(extent(0, 5, 100)), commits, "g")

    def test_a_partition_without_a_commit_is_not_zero(self) -> None:
        """E18."""
        with pytest.raises(OffsetsError, match="no committed offset"):
            boundaries.at_commits(extents(extent()), CommittedOffsets([CommittedOffset("t", 0, None)]), "g")

    def test_a_commit_of_a_log_that_was_cut_below_it_is_refused(self) -> None:
        """S15: the log has grown past it again."""
        commits = CommittedOffsets([CommittedOffset("t", 0, 70, leader_epoch=0, truncated_at=30)])
        with pytest.raises(LogTruncatedError, match="t-0 was truncated at 30, below 70"):
            boundaries.at_commits(extents(extent()), commits, "g")

    @pytest.mark.parametrize(("committed", "kept"), [(0, 0), (None, 1)])
    def test_the_boundary_has_the_epoch_of_the_commit(self, committed: int | None, kept: int) -> None:
        """Without one, that of the log: it tells of cuts from now on."""
        commits = CommittedOffsets([CommittedOffset("t", 0, 70, committed)])
        assert boundaries.at_commits(extents(extent()), commits, "g")[P0].leader_epoch == kept


class TestFutureRecords:
    def test_a_record_stamped_hours_ahead_is_named(self) -> None:
        """E5, S7: it would freeze every later window."""
        late = snapshot({0: 10})
        stamped = {key: replace(each, matched_timestamp_ms=T0 + 9 * HOUR_MS) for key, each in late.boundaries.items()}
        (remark,) = snapshot_warnings(replace(late, boundaries=stamped))
        assert "t-0 at offset 10" in remark

    def test_an_ordinary_match_is_not(self) -> None:
        assert list(snapshot_warnings(snapshot({0: 10}))) == []


def with_epoch(made: OffsetSnapshot, leader_epoch: int) -> OffsetSnapshot:
    boundaries = {key: replace(each, leader_epoch=leader_epoch) for key, each in made.boundaries.items()}
    return replace(made, boundaries=boundaries)


CONTRADICTIONS = [
    pytest.param(snapshot({0: 1061}), LogTruncatedError, id="S15: past the log's end"),
    pytest.param(snapshot({0: 50}, topic_id="id-2"), TopicChangedError, id="S16: another topic"),
    pytest.param(snapshot({0: 50, 1: 0}, topic_id="id-2"), TopicChangedError, id="E24: more partitions"),
]


class TestKnown:
    """Only what was stored before Kafka was asked proves that a log or topic has changed since, whatever clocks say."""

    @pytest.mark.parametrize(("stored", "error"), CONTRADICTIONS)
    def test_a_neighbour_that_was_stored_before_is_a_proof(
        self, stored: OffsetSnapshot, error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            boundaries.clamp(snapshot({0: 60}), stored, None)

    @pytest.mark.parametrize(("stored", "error"), CONTRADICTIONS)
    def test_one_that_was_stored_after_means_to_ask_again(self, stored: OffsetSnapshot, error: type[Exception]) -> None:
        with pytest.raises(OutdatedSurveyError, match="Asking Kafka again resolves this") as outdated:
            boundaries.clamp(snapshot({0: 60}), stored, None, [stored])
        assert outdated.value.retriable
        assert isinstance(outdated.value.__cause__, error)

    def test_a_topic_that_another_task_has_found_meanwhile_means_to_ask_again(self) -> None:
        stored = with_topic(snapshot({0: 50}), "u", 9)
        with pytest.raises(OutdatedSurveyError):
            boundaries.clamp(snapshot({0: 60}), stored, None, [stored])


class TestClamp:
    def test_a_boundary_never_passes_its_neighbours(self) -> None:
        """S2, E3: late or deleted records moved the look-up; the stored neighbour has the say."""
        before, after = snapshot({0: 50, 1: 0}, at_ms=T0 - HOUR_MS), snapshot({0: 80, 1: 9}, at_ms=T0 + HOUR_MS)
        fitted = boundaries.clamp(snapshot({0: 40, 1: 10}), before, after)
        assert list(offsets_of(fitted).values()) == [50, 9]
        assert {each.evidence for each in fitted.boundaries.values()} == {Evidence.CLAMPED}

    def test_a_boundary_that_is_moved_takes_the_leader_epoch_of_where_it_goes(self) -> None:
        """S15: by it a log is told that was cut below and has grown again."""
        before, after = snapshot({0: 50, 1: 0}, at_ms=T0 - HOUR_MS), snapshot({0: 80, 1: 9}, at_ms=T0 + HOUR_MS)
        before, after = with_epoch(before, 3), with_epoch(after, 4)
        fitted = boundaries.clamp(with_epoch(snapshot({0: 40, 1: 10}), 7), before, after)
        assert [each.leader_epoch for each in fitted.boundaries.values()] == [3, 4]

    def test_a_boundary_in_between_is_left_alone(self) -> None:
        fresh = snapshot({0: 60})
        assert boundaries.clamp(fresh, snapshot({0: 50}), snapshot({0: 80})) == fresh

    def test_a_partition_that_the_later_neighbour_lacks_was_not_there_yet(self) -> None:
        """E23, S18."""
        fitted = boundaries.clamp(snapshot({0: 60, 1: 3}), None, snapshot({0: 80}, at_ms=T0 + HOUR_MS))
        assert list(offsets_of(fitted)) == [P0]
        later = replace(snapshot({0: 80}, at_ms=T0 + HOUR_MS))
        assert ranges_between(fitted, later)[0].end_offset == 80

    def test_a_topic_that_the_later_neighbour_lacks_was_not_part_of_the_pipeline_yet(self) -> None:
        """Or a backfill would load the records that the topic's first live window loads."""
        both = with_topic(snapshot({0: 60}), "u", 9)
        fitted = boundaries.clamp(both, None, snapshot({0: 80}, at_ms=T0 + HOUR_MS))
        assert (sorted(fitted.topics), list(offsets_of(fitted))) == (["t"], [P0])

    def test_a_topic_that_is_not_named_any_more_is_refused(self) -> None:
        """Its records would come twice once it is named again."""
        with pytest.raises(ConfigurationError, match="has covered u since"):
            boundaries.clamp(snapshot({0: 60}), with_topic(snapshot({0: 50}, at_ms=T0 - HOUR_MS), "u", 9), None)

    @pytest.mark.parametrize("neighbour", [{"topic_id": "id-2"}, {"cluster_id": "cluster-2"}])
    def test_another_topic_or_cluster_of_the_same_name_is_refused(self, neighbour: dict[str, str]) -> None:
        """E24, S16."""
        with pytest.raises(TopicChangedError):
            boundaries.clamp(snapshot({0: 60}), snapshot({0: 50}, **neighbour), None)  # type: ignore[arg-type]

    def test_partitions_that_another_task_has_seen_already_are_asked_for_again(self) -> None:
        """S17: they were added between its question and this one's."""
        with pytest.raises(OutdatedSurveyError, match="has 2 partitions now, but had 1 when Kafka was asked") as failed:
            boundaries.clamp(snapshot({0: 60}), snapshot({0: 50, 1: 1}), None)
        assert failed.value.retriable

    def test_a_log_that_ends_before_its_windows_is_refused(self) -> None:
        """S15: what it takes up to there would be in no window."""
        with pytest.raises(LogTruncatedError, match="t-0 now ends at 1060, before offset 2000 of the snapshot"):
            boundaries.clamp(snapshot({0: 60}, at_ms=T0 + HOUR_MS), snapshot({0: 2000}), None)

    @pytest.mark.parametrize(
        ("answered", "error"),
        [(4, OffsetsError), (5, LogTruncatedError), (6, LogTruncatedError), (None, LogTruncatedError)],
    )
    def test_the_end_that_an_earlier_leader_tells_proves_nothing(
        self, answered: int | None, error: type[OffsetsError | LogTruncatedError]
    ) -> None:
        """S15: cut off from the controller, it knows neither its successor nor the records since; what it matched has
        an epoch of its own."""
        before = with_epoch(snapshot({0: 1000}), 5)
        told = extents(extent(0, 0, 900)._replace(leader_epoch=answered))
        for answer in (no_record(0), found(0, 800, T0 + HOUR_MS)):
            at = boundaries.at_instant(told, listed(answer), COMMITTED)
            fresh = replace(snapshot({0: 0}, at_ms=T0 + HOUR_MS), boundaries=at)
            with pytest.raises(error) as refused:
                boundaries.clamp(fresh, before, None)
            assert refused.value.retriable is (error is OffsetsError)
            with pytest.raises(OutdatedSurveyError):
                boundaries.clamp(fresh, before, None, [before])


def with_topic(known: OffsetSnapshot, topic: str, offset: int) -> OffsetSnapshot:
    """The snapshot with one partition of another topic beside."""
    facts = replace(known.topics["t"], topic=topic, topic_id=f"id-{topic}", partition_count=1)
    added = {TopicPartition(topic, 0): boundary(0, offset, topic=topic)}
    return replace(known, topics={**known.topics, topic: facts}, boundaries={**known.boundaries, **added})
