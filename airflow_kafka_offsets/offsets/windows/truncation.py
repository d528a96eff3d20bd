"""Truncation: whether a log has lost its end since an offset was seen in it, and given that offset to another record.

An unclean leader election truncates a log, and the log may then grow past its old end. Log ends no longer show this,
but the leader epoch under which the offset was seen does (KIP-101, KIP-320): it ends where the log was truncated. This
module interprets where leader epochs end; it doesn't ask Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from airflow_kafka_offsets.errors import LogTruncatedError, OffsetsError, ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffsets
from airflow_kafka_offsets.offsets.answers.logs import UNTOLD, EpochEnds
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

RESTART = (
    "Run kafka-offsets ledger restart for the pipeline: its windows stay as they are, and the next one begins with the "
    "records that the log has in the place of the lost ones."
)
"""What to do when a log was truncated and assigns offsets again that windows already cover."""
_PIN_AGAIN = (
    "what was pinned before can't be checked any more: run kafka-offsets ledger restart for the pipeline, and clear "
    "the tasks that wait for what was pinned"
)
"""What to do when a log is at a lower epoch than a pinned offset for good."""


def seen_in(snapshot: OffsetSnapshot) -> list[SeenOffset]:
    """The offsets of a snapshot, in order."""
    return [SeenOffset(*key, each.offset, each.leader_epoch) for key, each in sorted(snapshot.boundaries.items())]


def truncated_below(seen: Iterable[SeenOffset], ends: EpochEnds) -> dict[TopicPartition, str]:
    """The partitions whose logs were truncated below an offset, and where, in words."""
    found = {}
    for place in seen:
        key = TopicPartition.of(place)
        end = ends.lookup(*key)
        if end is not None and end.end_offset is not None and end.end_offset < place.offset:
            found[key] = f"{key} was truncated at {end.end_offset}, below {place.offset}"
    return found


def refuse_unanswered(ends: EpochEnds) -> None:
    """Check that every leader answered, or is one that never tells.

    :raises OffsetsError: naming the partitions; it isn't known whether their logs were truncated.
    """
    failures = [(what, error) for what, error in ends.failures() if error.name not in UNTOLD]
    if failures:
        needs = "OffsetForLeaderEpoch, which needs the ACL Describe on the topic"
        asked = f"Asking whether logs were truncated since ({needs})"
        raise OffsetsError(asked, failures)


def of_unknown_epochs(seen: Iterable[SeenOffset], ends: EpochEnds) -> list[SeenOffset]:
    """The offsets whose leader doesn't know their epoch."""
    found = ((place, ends.lookup(place.topic, place.partition)) for place in seen)
    return [place for place, end in found if end is not None and end.error is None and end.end_offset is None]


def refuse_later_epochs(seen: Iterable[SeenOffset], leader_epoch: Callable[[str, int], int | None]) -> None:
    """Refuse logs that are at a lower epoch than an offset: within a log, epochs never go backwards. A log without
    epochs proves nothing.

    :param seen: offsets from :func:`of_unknown_epochs`.
    :param leader_epoch: gives the newest epoch of a partition's log; None when unknown.
    :raises OffsetsError: naming the partitions; a retry may succeed.
    """
    later = [
        (
            f"{place.topic}-{place.partition}",
            of_another_log(f"the offset was seen under epoch {place.leader_epoch}", now, _PIN_AGAIN),
        )
        for place in seen
        if place.leader_epoch is not None
        and (now := leader_epoch(place.topic, place.partition)) is not None
        and now < place.leader_epoch
    ]
    if later:
        raise OffsetsError("Asking whether logs were truncated since", later)


def of_another_log(seen: str, leader_epoch: int, way: str) -> ResponseError:
    """The error for an offset of a later epoch than its log: it belongs to another log, a broker doesn't know the
    newest leader yet, or the topic's epochs began anew, as when it becomes diskless (KIP-1150).

    :param seen: what was seen or committed under which epoch, in words.
    :param leader_epoch: the log's newest epoch.
    :param way: what to do in the other cases than an outdated leader.
    """
    return ResponseError(
        "UNKNOWN_LEADER_EPOCH",
        75,
        True,
        f"{seen}, but the log is at {leader_epoch}. If the leader that answered has been replaced, this resolves "
        "itself within minutes. If it stays, the topic was re-created; or, if its id is still the same, its leader "
        f"epochs began anew, as when it becomes diskless. Then {way}",
    )


def unknown_truncations(seen: Iterable[SeenOffset], ends: EpochEnds) -> Iterator[str]:
    """The partitions for which nobody knows whether their log was truncated, and why. Below offset 0 there is nothing
    to truncate.

    :param ends: with no errors other than those that :func:`refuse_unanswered` accepts.
    """
    for place in seen:
        if place.offset == 0:
            continue
        key = TopicPartition.of(place)
        end = ends.lookup(*key)
        if end is None:
            yield f"{key} (its leader epoch isn't known)"
        elif end.error is not None:
            yield f"{key} ({UNTOLD[end.error.name]})"
        elif end.end_offset is None:
            yield f"{key} (its leader doesn't know epoch {place.leader_epoch})"


def refuse_shorter_logs(before: OffsetSnapshot, fresh: OffsetSnapshot) -> None:
    """Refuse logs that end before their offset in an earlier snapshot (S15).

    If their new boundaries were clamped to that offset, records that the log takes until it gets there would be in no
    window. Without truncation, a log that is asked later never ends earlier, not even during a leader change (KIP-207).
    One exception: a leader that is cut off from the controller keeps reporting its own log, without knowing its
    successor or the records since.

    :raises OffsetsError: when an older leader answered than the snapshot's: that proves nothing, and passes.
    :raises LogTruncatedError: naming the partitions, and where their logs end.
    """
    shorter = {
        key: (old, boundary)
        for key, boundary in sorted(fresh.boundaries.items())
        if (old := before.boundaries.get(key)) is not None and old.offset > boundary.high_watermark
    }
    seen = [SeenOffset(*key, old.offset, old.leader_epoch) for key, (old, _) in shorter.items()]
    refuse_later_epochs(seen, lambda *key: shorter[TopicPartition(*key)][1].ends_leader_epoch)
    truncated = [
        f"{key} was at {old.offset}, but its log now ends at {boundary.high_watermark}"
        for key, (old, boundary) in shorter.items()
    ]
    if truncated:
        raise LogTruncatedError(
            f"Logs were truncated after {before.title}: {shorten(truncated)}. A replica that was "
            "behind leads now (unclean leader election), and assigns new records offsets that existing "
            f"windows already cover. Nothing was stored. {RESTART}"
        )


def refuse_truncated_commits(commits: CommittedOffsets, group: str, way: str = "") -> None:
    """Refuse commits of logs that were truncated below them, even if the logs have grown past them since (S15).

    :param way: another option, added to the advice.
    :raises LogTruncatedError: naming the partitions, and where their logs were truncated.
    """
    truncated = [
        f"{commit.topic}-{commit.partition} was truncated at {commit.truncated_at}, below {commit.offset}"
        for commit in commits
        if commit.truncated_at is not None
    ]
    if truncated:
        raise LogTruncatedError(
            f"Logs were truncated after group {group} had committed, and hold other records now: {shorten(truncated)}. "
            "A replica that was behind leads now (unclean leader election). Nothing was written. Decide "
            f"where the group should continue, and move it there with kafka-offsets reset --backwards{way}."
        )
