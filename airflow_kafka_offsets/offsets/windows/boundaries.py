"""Resolving: turning leaders' answers into the boundaries of a snapshot.

To resolve an instant, the log end is requested *before* the timestamp. If there is no record at or after the instant,
that earlier end is the boundary, so no record that arrives in between can be skipped (E2). The snapshots of a pipeline
form a chain that never runs backwards, whatever order instants resolve in: a boundary is clamped between its stored
neighbours (S2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    InstantError,
    OffsetsError,
    OutdatedSurveyError,
    ResponseError,
    WindowError,
)
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_partition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary, Evidence, OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.offsets.windows.truncation import RESTART, refuse_shorter, refuse_truncated_commits, seen_in

Boundaries = Mapping[TopicPartition, Boundary]


_WAIT = "Put a KafkaWindowCompleteSensor before this task, or schedule the run after the interval's end."


def refuse_future(timestamp_ms: int, now_ms: int, way: str = _WAIT) -> None:
    """Refuse an instant that hasn't passed (E36).

    :param way: what to do instead; by default, how to wait in a Dag.
    :raises InstantError: naming both times.
    """
    if timestamp_ms > now_ms:
        raise InstantError(
            f"{iso_instant(timestamp_ms)} lies in the future (it is {iso_instant(now_ms)}): its offsets aren't known. "
            f"{way}"
        )


def at_instant(extents: LogExtents, listed: ListedOffsets, isolation_level: IsolationLevel) -> Boundaries:
    """Boundaries at an instant.

    :param extents: log starts and ends, requested before ``listed``.
    :param listed: the first record at or after the instant, per partition.
    :raises OffsetsError: when any partition is in error or unanswered, or was answered with an older record (E37).
    :raises InstantError: when the records of a partition have no timestamps (E42).
    """

    def resolve(extent: LogExtent) -> Boundary:
        answer = listed.lookup(extent.topic, extent.partition)
        assert answer is not None, "every partition with an extent was looked up"
        if answer.offset is None:
            return _boundary(extent, extent.end_offset(isolation_level), Evidence.LOG_END)
        truncated = 0 < answer.offset <= (extent.log_start_offset or 0)
        found = _boundary(extent, answer.offset, Evidence.LOG_START if truncated else Evidence.MATCHED)
        return replace(found, matched_timestamp_ms=answer.timestamp_ms, leader_epoch=answer.leader_epoch)

    listed.raise_for_errors().refuse_older_answers().refuse_untimed()
    return _by_partition(extents, resolve)


def at_latest(extents: LogExtents, isolation_level: IsolationLevel) -> Boundaries:
    """Boundaries at the visible end of the logs."""
    return _by_partition(extents, lambda log: _boundary(log, log.end_offset(isolation_level), Evidence.LOG_END))


def at_earliest(extents: LogExtents) -> Boundaries:
    """Boundaries at the log starts."""
    return _by_partition(extents, lambda log: _boundary(log, log.log_start_offset, Evidence.LOG_START))


def at_commits(extents: LogExtents, commits: CommittedOffsets, group: str) -> Boundaries:
    """Boundaries at a group's commits.

    A boundary has its commit's leader epoch, which reveals a later truncation below it. When the group committed no
    epoch, an earlier truncation can't be detected; the log's current epoch reveals those from now on.

    :param commits: the group's commits, marked where logs were truncated below them.
    :param group: the group's id.
    :raises LogTruncatedError: when a log was truncated below a commit, even if it has grown past it since (S15).
    :raises OffsetsError: when the group has no commit on a partition (that is unknown, not zero: E18), or one that lies
        outside the log (E17, E9).
    """
    commits.raise_for_errors()
    extents.raise_for_errors()
    refuse_truncated_commits(commits, group, ", or make the snapshot as of something else")
    offsets = {key: commit.offset for key, commit in by_partition(commits).items()}
    refused = [
        (str(key), error)
        for key, log in by_partition(extents).items()
        if (error := _refuse(group, log, offsets.get(key)))
    ]
    if refused:
        raise OffsetsError(f"A snapshot of the commits of group {group}", refused)

    def resolve(extent: LogExtent) -> Boundary:
        commit = commits.lookup(extent.topic, extent.partition)
        assert commit is not None
        found = _boundary(extent, commit.offset, Evidence.COMMITTED)
        return found if commit.leader_epoch is None else replace(found, leader_epoch=commit.leader_epoch)

    return _by_partition(extents, resolve)


def _refuse(group: str, extent: LogExtent, offset: int | None) -> ResponseError | None:
    assert extent.log_start_offset is not None and extent.high_watermark is not None
    if offset is None:
        command = f"reset {group} --topics {extent.topic} --partitions {extent.partition} --to earliest --execute"
        why = (
            "the group has no committed offset here. Check its name; if it is right, set one, for example with "
            f"kafka-offsets {command}"
        )
        return ResponseError("NO_COMMIT", -1, False, why)
    if not extent.log_start_offset <= offset <= extent.high_watermark:
        held = f"the log holds {extent.log_start_offset} to {extent.high_watermark}"
        return ResponseError("OFFSET_OUT_OF_RANGE", 1, False, f"the group committed {offset}, {held}")
    return None


def clamp(
    snapshot: OffsetSnapshot,
    before: OffsetSnapshot | None,
    after: OffsetSnapshot | None,
    newer: Collection[OffsetSnapshot] = (),
) -> OffsetSnapshot:
    """Fit a newly resolved snapshot between its stored neighbours in time.

    A difference from a neighbour means that the log or the topic has changed *since the neighbour was stored* only if
    Kafka was asked after that. A neighbour stored after Kafka was asked knows more than the snapshot, whatever the
    machines' clocks say. Topics and partitions that the later neighbour lacks didn't exist yet, and are left out (E23,
    S18). Those of the earlier neighbour must still exist.

    :param newer: those of the two that were stored after Kafka was asked.
    :raises TopicChangedError: when a topic was re-created since a neighbour was stored, or the cluster differs.
    :raises ConfigurationError: when a topic of the earlier neighbour is no longer requested: its records would be
        counted twice once it comes back.
    :raises LogTruncatedError: when a log now ends before the earlier neighbour's offset.
    :raises OffsetsError: when it does according to an older leader than the neighbour's. A retry may succeed.
    :raises OutdatedSurveyError: when one of these concerns a neighbour that was stored after Kafka was asked, or when
        partitions are missing because they were added after Kafka was asked. Ask again.
    """
    for neighbour in (before, after):
        if neighbour is not None:
            with _proved_by(neighbour, newer):
                _refuse_outdated(neighbour, snapshot)
                check_topics(neighbour, snapshot.cluster_id, snapshot.topics, all_there=False)
    if before is not None:
        with _proved_by(before, newer):
            refuse_dropped_topics(before, snapshot.topics)
            # If boundaries of shorter logs were clamped to it, the records that a log takes until it gets there would
            # be in no window.
            ends = {key: each.high_watermark for key, each in snapshot.boundaries.items()}
            epochs = {key: each.ends_leader_epoch for key, each in snapshot.boundaries.items()}
            refuse_shorter(before.title, seen_in(before), ends, lambda *key: epochs[TopicPartition(*key)], RESTART)
    boundaries = {}
    for key, boundary in snapshot.boundaries.items():
        lowest = None if before is None else before.boundaries.get(key)
        highest = None if after is None else after.boundaries.get(key)
        if lowest is not None and boundary.offset < lowest.offset:
            boundaries[key] = _moved_to(lowest, boundary)
        elif highest is not None and boundary.offset > highest.offset:
            boundaries[key] = _moved_to(highest, boundary)
        elif highest is not None or after is None:
            boundaries[key] = boundary
    counts = Counter(key.topic for key in boundaries)
    topics = {
        topic: replace(facts, partition_count=counts[topic])
        for topic, facts in snapshot.topics.items()
        if counts[topic]
    }
    return replace(snapshot, topics=topics, boundaries=boundaries)


@contextmanager
def _proved_by(stored: OffsetSnapshot, newer: Collection[OffsetSnapshot]) -> Iterator[None]:
    """Report contradictions of a snapshot that was stored after Kafka was asked as outdated: they prove nothing."""
    try:
        yield
    except (ConfigurationError, OffsetsError, WindowError) as contradiction:
        if stored not in newer:
            raise
        raise OutdatedSurveyError(
            f"Another task stored {stored.title} after Kafka had been asked for this one, "
            f"and that one is more recent. Asking Kafka again resolves this. Until then: {contradiction}"
        ) from contradiction


def _refuse_outdated(stored: OffsetSnapshot, fresh: OffsetSnapshot) -> None:
    """Refuse to go on when partitions were added after Kafka was asked, and another task has stored them."""
    for topic in sorted(stored.topics.keys() & fresh.topics.keys()):
        old, new = stored.topics[topic], fresh.topics[topic]
        same = old.topic_id is not None and old.topic_id == new.topic_id
        if same and new.partition_count < old.partition_count:
            raise OutdatedSurveyError(
                f"Topic {topic} has {old.partition_count} partitions now, but had {new.partition_count} when Kafka was "
                "asked."
            )


def refuse_dropped_topics(before: OffsetSnapshot, topics: Collection[str]) -> None:
    """Refuse to go on with fewer topics than a snapshot has.

    :raises ConfigurationError: naming those that are missing.
    """
    dropped = sorted(before.topics.keys() - set(topics))
    if dropped:
        raise ConfigurationError(
            f"The pipeline has covered {', '.join(dropped)} since {before.title}: name all "
            "of its topics. To stop loading a topic, start another pipeline."
        )


def _moved_to(known: Boundary, boundary: Boundary) -> Boundary:
    """The boundary moved to a known one's offset, with its leader epoch. That is the epoch of the records there
    (KIP-101), which reveals a truncation below them even after the log has grown again."""
    return replace(boundary, offset=known.offset, evidence=Evidence.CLAMPED, leader_epoch=known.leader_epoch)


def _by_partition(extents: LogExtents, resolve: Callable[[LogExtent], Boundary]) -> Boundaries:
    extents.raise_for_errors()
    return {TopicPartition.of(extent): resolve(extent) for extent in extents}


def _boundary(extent: LogExtent, offset: int | None, evidence: Evidence) -> Boundary:
    """A boundary without a matched record."""
    assert offset is not None and extent.log_start_offset is not None, "an extent without error is complete"
    assert extent.high_watermark is not None and extent.last_stable_offset is not None
    return Boundary(
        topic=extent.topic,
        partition=extent.partition,
        offset=offset,
        evidence=evidence,
        matched_timestamp_ms=None,
        leader_epoch=extent.leader_epoch,
        log_start_offset=extent.log_start_offset,
        high_watermark=extent.high_watermark,
        last_stable_offset=extent.last_stable_offset,
        ends_leader_epoch=extent.leader_epoch,
    )
