"""Truncation: whether a log has lost its end since an offset was seen in it, and given that offset to another record.

An unclean leader election cuts a log, and it may grow past its old end again. Log ends don't tell then; the leader
epoch does under which the offset was seen (KIP-101, KIP-320): it ends where the log was cut. Where leader epochs end is
asked elsewhere; here is what the answers mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from airflow_kafka_offsets.errors import LogTruncatedError, OffsetsError, ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffsets
from airflow_kafka_offsets.offsets.answers.logs import FORGET_PAST, UNTOLD, EpochEnds
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

_GONE = "the records pinned in the old one are gone with it"


class SeenOffset(NamedTuple):
    """An offset that was seen in a log.

    :param leader_epoch: the leader epoch that it was seen under (KIP-320); None where nobody knows that.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None


def seen_in(snapshot: OffsetSnapshot) -> list[SeenOffset]:
    """The offsets of a snapshot, in order."""
    return [SeenOffset(*key, each.offset, each.leader_epoch) for key, each in sorted(snapshot.boundaries.items())]


def cut_below(seen: Iterable[SeenOffset], ends: EpochEnds) -> dict[TopicPartition, str]:
    """Which logs were cut below an offset, and where, in words."""
    found = {}
    for place in seen:
        key = TopicPartition.of(place)
        end = ends.lookup(*key)
        if end is not None and end.end_offset is not None and end.end_offset < place.offset:
            found[key] = f"{key} was truncated at {end.end_offset}, below {place.offset}"
    return found


def refuse_unanswered(ends: EpochEnds) -> None:
    """Make sure that every leader answered, or is one that never tells.

    :raises OffsetsError: naming partitions; whether their logs were cut is open.
    """
    failures = [(what, error) for what, error in ends.failures() if error.name not in UNTOLD]
    if failures:
        needs = "OffsetForLeaderEpoch, which needs the ACL Describe on the topic"
        asked = f"Asking whether logs were truncated since ({needs})"
        raise OffsetsError(asked, failures)


def not_known(seen: Iterable[SeenOffset], ends: EpochEnds) -> list[SeenOffset]:
    """The offsets whose leader doesn't know their epoch."""
    found = ((place, ends.lookup(place.topic, place.partition)) for place in seen)
    return [place for place, end in found if end is not None and end.error is None and end.end_offset is None]


def refuse_later_epochs(seen: Iterable[SeenOffset], leader_epoch: Callable[[str, int], int | None]) -> None:
    """Refuse logs that haven't come to the epoch of an offset: epochs never run backwards, so that it is of another log
    of that name, or a broker doesn't know the newest leader yet. A log that has no epochs at all says as little of any.

    :param seen: as :func:`not_known` finds them.
    :param leader_epoch: the newest epoch of a topic's partition; None when unknown.
    :raises OffsetsError: naming partitions; it may pass.
    """
    later = [
        (
            f"{place.topic}-{place.partition}",
            of_another_log(f"the offset was seen under epoch {place.leader_epoch}", now, _GONE),
        )
        for place in seen
        if place.leader_epoch is not None
        and (now := leader_epoch(place.topic, place.partition)) is not None
        and now < place.leader_epoch
    ]
    if later:
        raise OffsetsError("Asking whether logs were truncated since", later)


def of_another_log(seen: str, leader_epoch: int, way: str) -> ResponseError:
    """The error of an offset of a later epoch than its log; or a broker doesn't know the newest leader yet.

    :param seen: what was seen or committed under which epoch, in words.
    :param leader_epoch: the log's newest one.
    :param way: what it means if the topic was made again, and what to do.
    """
    return ResponseError(
        "UNKNOWN_LEADER_EPOCH",
        75,
        True,
        f"{seen}, and the log is at {leader_epoch}: the topic was re-created, and {way}; or the leader that "
        "answered has been replaced, which passes",
    )


def untold(seen: Iterable[SeenOffset], ends: EpochEnds) -> Iterator[str]:
    """The partitions of which nobody knows whether their log was cut, and why. Below offset 0 there is nothing to be
    cut.

    :param ends: without other errors than :func:`refuse_unanswered` lets pass.
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
    """Refuse to go on where a log ends before a window that it filled (S15).

    Clamped to that window's end, what the log takes up to there would be in no window. A log that was asked later never
    ends earlier otherwise, also while its leader changes (KIP-207); but a leader that is cut off from the controller
    goes on telling of its own log, and knows neither its successor nor the records since.

    :raises OffsetsError: when an earlier leader answered than the one of the snapshot: that proves nothing, and passes.
    :raises LogTruncatedError: naming partitions, and where they end.
    """
    shorter = {
        key: (old, boundary)
        for key, boundary in sorted(fresh.boundaries.items())
        if (old := before.boundaries.get(key)) is not None and old.offset > boundary.high_watermark
    }
    seen = [SeenOffset(*key, old.offset, old.leader_epoch) for key, (old, _) in shorter.items()]
    refuse_later_epochs(seen, lambda *key: shorter[TopicPartition(*key)][1].ends_leader_epoch)
    truncated = [
        f"{key} stands at {old.offset}, the log ends at {boundary.high_watermark}"
        for key, (old, boundary) in shorter.items()
    ]
    if truncated:
        raise LogTruncatedError(
            f"Logs were truncated after the snapshot at {before.as_of}: {shorten(truncated)}. A replica that was "
            "behind leads now (unclean leader election), and assigns new records offsets that existing "
            f"windows already cover. Nothing was stored. {FORGET_PAST}"
        )


def refuse_cut_commits(commits: CommittedOffsets, group: str, way: str = "") -> None:
    """Refuse to go by commits of a log that was cut below them, though it has grown past them again (S15).

    :param way: what else may be done, added to the advice.
    :raises LogTruncatedError: naming partitions, and where they were cut.
    """
    cut = [
        f"{commit.topic}-{commit.partition} was truncated at {commit.cut_at}, below {commit.offset}"
        for commit in commits
        if commit.cut_at is not None
    ]
    if cut:
        raise LogTruncatedError(
            f"Logs were truncated after group {group} had committed, and hold other records now: {shorten(cut)}. A "
            "replica that was behind leads now (unclean leader election). Nothing was written. Decide "
            f"where the group should continue, and move it there with kafka-offsets reset{way}."
        )
