"""Truncation: whether a log has lost its end since an offset was seen in it, and given that offset to another record.

An unclean leader election truncates a log, and the log may then grow past its old end. Log ends no longer show this,
but the leader epoch under which the offset was seen does (KIP-101, KIP-320): it ends where the log was truncated. This
module interprets where leader epochs end; it doesn't ask Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

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

NewestEpoch: TypeAlias = Callable[[str, int], int | None]


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


def refuse_rewritten(
    what: str, seen: Sequence[SeenOffset], ends: EpochEnds, leader_epoch: NewestEpoch, way: str
) -> list[str]:
    """Refuse logs that were truncated below an offset, even if they have grown past it since (S15).

    :param what: what has the offsets, in words.
    :param ends: where the leader epochs of the offsets end, as far as is known.
    :param leader_epoch: gives the newest epoch of a partition's log; None when unknown.
    :param way: what to do.
    :returns: the partitions for which nobody can tell, and why, in words.
    :raises LogTruncatedError: naming the partitions, and where their logs were truncated.
    :raises OffsetsError: when a leader can't be asked, or a log is at a lower epoch than its offset.
    """
    truncated = truncated_below(seen, ends)
    if truncated:
        raise LogTruncatedError(
            f"Logs were truncated after {what}, and hold other records now: {shorten(truncated.values())}. A replica "
            f"that was behind leads now (unclean leader election). {way}",
            topic=min(truncated).topic,
        )
    refuse_unanswered(ends)
    found = ((place, ends.lookup(place.topic, place.partition)) for place in seen)
    strange = [place for place, end in found if end is not None and end.error is None and end.end_offset is None]
    _refuse_later_epochs(strange, leader_epoch)
    return list(_unknown_truncations(seen, ends))


def refuse_shorter(
    what: str, seen: Iterable[SeenOffset], ends: Mapping[TopicPartition, int], leader_epoch: NewestEpoch, way: str
) -> None:
    """Refuse logs that end before an offset (S15). Without truncation, a log that is asked later never ends earlier,
    not even during a leader change (KIP-207). One exception: a leader that is cut off from the controller keeps
    reporting its own log, without knowing its successor or the records since.

    :param what: what has the offsets, in words.
    :param ends: where logs end now.
    :param leader_epoch: gives the epoch of the leader that says so; None when unknown.
    :param way: what to do.
    :raises OffsetsError: when an older leader answered than the offset's: that proves nothing, and passes.
    :raises LogTruncatedError: naming the partitions, and where their logs end.
    """
    short = [place for place in seen if ends.get(TopicPartition.of(place), place.offset) < place.offset]
    _refuse_later_epochs(short, leader_epoch)
    if short:
        found = (
            f"{(key := TopicPartition.of(each))} now ends at {ends[key]}, before offset {each.offset}" for each in short
        )
        raise LogTruncatedError(
            f"{shorten(found)} of {what}: the log was truncated. A replica that was behind leads now (unclean leader "
            f"election), and gives new records the same offsets. {way}",
            topic=short[0].topic,
        )


def _refuse_later_epochs(seen: Iterable[SeenOffset], leader_epoch: NewestEpoch) -> None:
    """Refuse logs that are at a lower epoch than an offset: within a log, epochs never go backwards. A log without
    epochs proves nothing."""
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


def _unknown_truncations(seen: Iterable[SeenOffset], ends: EpochEnds) -> Iterator[str]:
    """The partitions for which nobody knows whether their log was truncated, and why. Below offset 0 there is nothing
    to truncate."""
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
