"""Same logs: what is asked right before a wait passes, and what the answers make of it."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.client.routing.metadata import PartitionMetadata, TopicMetadata, TopicsMetadata
from airflow_kafka_offsets.conditions.condition import Answers, UnansweredError, note_unknowable, unknowable_of
from airflow_kafka_offsets.errors import LogTruncatedError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd, LogEpoch
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

SEEN = FixedOffsets.of(
    "snapshot 1",
    [SeenOffset("t", 0, 7, 3), SeenOffset("t", 1, 5, 2)],
    {"t": "id-1"},
    cluster_id="cluster-1",
)
UNTOUCHED = {LogEpoch("t", 0, 3): EpochEnd("t", 0, 3, 7), LogEpoch("t", 1, 2): EpochEnd("t", 1, 2, 9)}


def metadata(topic: str = "t", *, leader_epoch: int | None = 4) -> TopicsMetadata:
    partitions = tuple(PartitionMetadata(each, 1, leader_epoch) for each in range(2))
    return TopicsMetadata([TopicMetadata(topic, "id-1", partitions)], "cluster-1")


def judged(
    positions: FixedOffsets, answers: dict[LogEpoch, EpochEnd], now: TopicsMetadata | None = None
) -> tuple[list[str], frozenset[LogEpoch]]:
    """What it comes to, and what was asked."""
    try:
        return unknowable_of(positions, now or metadata(), Answers(0)), frozenset()
    except UnansweredError as error:
        (need,) = error.needs
    known = Answers(0, {need: {each: answers[each] for each in need.wanted}})
    return unknowable_of(positions, now or metadata(), known), need.wanted


def failed(error: ResponseError) -> dict[LogEpoch, EpochEnd]:
    """Leader of partition 0 in error."""
    return UNTOUCHED | {LogEpoch("t", 0, 3): EpochEnd("t", 0, error=error)}


class TestCut:
    def test_epochs_that_end_at_their_offsets_or_later_are_of_the_same_logs(self) -> None:
        assert judged(SEEN, UNTOUCHED) == ([], UNTOUCHED.keys())

    def test_one_that_ends_before_is_an_error_of_its_partition(self) -> None:
        """S15."""
        cut = UNTOUCHED | {LogEpoch("t", 1, 2): EpochEnd("t", 1, 2, 3)}
        with pytest.raises(LogTruncatedError, match=r"after snapshot 1.* t-1 was truncated at 3, below 5") as error:
            judged(SEEN, cut)
        assert (error.value.topic, error.value.retriable) == ("t", False)

    def test_topics_that_are_not_waited_for_are_not_asked_about(self) -> None:
        assert judged(SEEN, {}, metadata("other")) == ([], frozenset())

    def test_below_offset_0_there_is_nothing_to_be_cut(self) -> None:
        start = FixedOffsets.of("start", [SeenOffset("t", 0, 0, 3)], {"t": "id-1"}, cluster_id="cluster-1")
        assert judged(start, {}) == ([], frozenset())


class TestUnknown:
    def test_what_brokers_never_tell_passes_and_is_said(self) -> None:
        found, _ = judged(SEEN, failed(ResponseError("UNSUPPORTED_VERSION", 35, False)))
        assert found == ["whether logs were truncated since: t-0 (brokers before Kafka 2.1 don't say)"]
        assert note_unknowable(found) == f", but Kafka doesn't tell {found[0]}"

    def test_topics_without_ids_and_offsets_without_epochs_are_said(self) -> None:
        old = FixedOffsets.of("snapshot 1", [SeenOffset("t", 0, 7), SeenOffset("t", 1, 0)], cluster_id="cluster-1")
        assert judged(old, {}) == (
            ["the id of t", "whether logs were truncated since: t-0 (its leader epoch isn't known)"],
            frozenset(),
        )

    def test_nothing_is_claimed_of_offsets_that_were_written_by_hand(self) -> None:
        assert judged(FixedOffsets.of("target", [SeenOffset("t", 0, 7)]), {}) == ([], frozenset())
        assert note_unknowable([]) == ""

    def test_a_leader_that_fails_to_answer_is_an_error_that_may_pass(self) -> None:
        with pytest.raises(OffsetsError, match="Asking whether logs were truncated since") as error:
            judged(SEEN, failed(ResponseError("NOT_LEADER_OR_FOLLOWER", 6, True)))
        assert error.value.retriable

    @pytest.mark.parametrize("now", [3, None])
    def test_a_log_that_remembers_no_epochs_tells_nothing(self, now: int | None) -> None:
        """As one of records from before Kafka 0.11."""
        found, _ = judged(SEEN, UNTOUCHED | {LogEpoch("t", 0, 3): EpochEnd("t", 0)}, metadata(leader_epoch=now))
        assert found == ["whether logs were truncated since: t-0 (its leader doesn't know epoch 3)"]

    def test_a_log_that_has_not_come_to_the_epoch_is_another_one_or_told_by_a_broker_behind(self) -> None:
        """E24: where topics have no ids, a topic that was made again begins at epoch 0."""
        answers = UNTOUCHED | {LogEpoch("t", 0, 3): EpochEnd("t", 0)}
        with pytest.raises(OffsetsError, match=r"t-0: UNKNOWN_LEADER_EPOCH .* epoch 3, but the log is at 1") as error:
            judged(SEEN, answers, metadata(leader_epoch=1))
        assert error.value.retriable
