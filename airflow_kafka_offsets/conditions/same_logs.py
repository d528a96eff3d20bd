"""Same logs: whether logs are still the ones that some offsets were seen in, asked right before a wait passes.

If a log was truncated and has grown again, only leader epochs show it (S15). Asking where they end takes a request to
each leader, which a wait that goes on is spared.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.conditions.needs import Answers, EndsOfEpochs
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogEpoch
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


def unknowable_of(seen: FixedOffsets, metadata: TopicsMetadata, answers: Answers) -> list[str]:
    """What nobody can tell about whether these are the same logs, in words; usually nothing.

    :param metadata: the cluster and topics as they are now; offsets on other topics are ignored.
    :raises LogTruncatedError: when a log was truncated below an offset and has grown past it again.
    :raises OffsetsError: when a leader can't be asked, or a log is at a lower epoch than its offset.
    """
    seen = seen.on(metadata.topic_ids)
    epochs = EndsOfEpochs.of(
        LogEpoch(offset.topic, offset.partition, offset.leader_epoch)
        for offset in seen.seen
        if offset.leader_epoch is not None and offset.offset > 0
    )
    return seen.unknowable(EpochEnds(answers[epochs].values()), metadata.leader_epoch)


def note_unknowable(unknowable: Iterable[str]) -> str:
    """For the end of a summary."""
    words = ", ".join(unknowable)
    return f", but Kafka doesn't tell {words}" if words else ""
