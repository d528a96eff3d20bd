"""Same logs: whether logs are still the ones that some positions were seen in, asked before a check passes.

A cut that has grown again shows in the leader epochs alone. So their ends are asked, by a request for each leader, and
only when everything else is fulfilled: a wait that goes on isn't held up by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.conditions.questions import Asking, Ends, ask
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogEpoch
from airflow_kafka_offsets.offsets.windows.cut_logs import not_known, refuse_later_epochs, refuse_unanswered
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


def ask_same_logs(positions: FixedOffsets, metadata: TopicsMetadata) -> Asking[list[str]]:
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
    refuse_later_epochs(not_known(positions.seen(), ends), metadata.leader_epoch)
    return positions.unknowable(ends)


def remark(unknowable: Iterable[str]) -> str:
    """For the end of a summary."""
    words = ", ".join(unknowable)
    return f", but Kafka doesn't tell {words}" if words else ""
