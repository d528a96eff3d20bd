"""Same logs: whether logs are still the ones that some positions were seen in, asked before a check passes.

A cut that has grown again shows in the leader epochs alone. So their ends are asked, by a request for each leader, and
only when everything else is fulfilled: a wait that goes on isn't held up by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_kafka_offsets.client.metadata import TopicsMetadata
from airflow_kafka_offsets.conditions.questions import Asking, Ends, ask
from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.cuts import refuse_unanswered
from airflow_kafka_offsets.offsets.leader_epochs import EpochEnd, EpochEnds, LogEpoch
from airflow_kafka_offsets.offsets.positions import Positions


def ask_same_logs(positions: Positions, metadata: TopicsMetadata) -> Asking[list[str]]:
    """Within a check, right before it passes: what nobody can tell, in words; mostly nothing.

    :param metadata: cluster and topics as they are now; positions on other topics aren't asked about.
    :raises LogTruncatedError: a log was cut below a position, and has grown past it again.
    :raises OffsetsError: a leader can't be asked, or a log hasn't come to the epoch of its position.
    """
    positions = positions.on(metadata.topic_ids)
    epochs = [
        LogEpoch(each.topic, each.partition, each.leader_epoch)
        for each in positions.seen()
        if each.leader_epoch is not None and each.offset > 0
    ]
    answers = (yield from ask(Ends.about(epochs))) if epochs else {}
    ends = EpochEnds(answers.values())
    positions.refuse_cut(ends)
    refuse_unanswered(ends)
    _refuse_later_epochs(answers, metadata)
    return positions.unknowable(ends)


def _refuse_later_epochs(answers: dict[LogEpoch, EpochEnd], metadata: TopicsMetadata) -> None:
    """Refuse logs that haven't come to an epoch: epochs never run backwards, so that it is of another log of that name,
    or brokers don't know their newest leader yet. A log that has no epochs at all says as little of any."""
    later = [
        (f"{each.topic}-{each.partition}", _of_another_log(each.leader_epoch, now))
        for each in _not_known(answers)
        if (now := metadata.leader_epoch(each.topic, each.partition)) is not None and now < each.leader_epoch
    ]
    if later:
        raise OffsetsError("Asking whether logs were cut since", later)


def _not_known(answers: dict[LogEpoch, EpochEnd]) -> Iterator[LogEpoch]:
    return (each for each, end in answers.items() if end.error is None and end.end_offset is None)


def _of_another_log(seen: int, now: int) -> ResponseError:
    return ResponseError(
        "UNKNOWN_LEADER_EPOCH",
        75,
        True,
        f"the offset was seen under leader epoch {seen}, and the log is at {now}: the topic was made again, and the "
        "task that pinned the offset has to be cleared, and this one; or a broker doesn't know the newest leader yet, "
        "which passes",
    )


def remark(unknowable: Iterable[str]) -> str:
    """For the end of a summary."""
    words = ", ".join(unknowable)
    return f", but Kafka doesn't tell {words}" if words else ""
