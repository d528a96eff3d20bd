"""Leader epochs: where the records of one leader end in a partition's log (KIP-101, KIP-320).

Each new leader of a partition writes under a higher epoch. A log that an unclean election cut off and that has grown
again since has its old ends back, but not for its old epoch: that one ends where the log was cut.
"""

from __future__ import annotations

from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap

UNTOLD = {
    "UNSUPPORTED_VERSION": "brokers before Kafka 2.1 don't tell",
    "CLUSTER_AUTHORIZATION_FAILED": "brokers of Kafka 2.1 and 2.2 tell those who have the ACL ClusterAction",
}
"""Errors that leave unknown where an epoch ends, by design of those brokers: asking again or later doesn't help."""
FORGET_PAST = (
    "Of the windows that end past there, forget those between two instants (airflow kafka-offsets ledger forget), or "
    "start another pipeline."
)
"""What to do about a log that was cut, and gives offsets again that windows have. Other windows, such as increments,
can't be resolved anew."""


class LogEpoch(NamedTuple):
    """One leader epoch of one partition's log.

    :param topic: topic name.
    :param partition: partition number.
    :param leader_epoch: 0 or more.
    """

    topic: str
    partition: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """Where one leader epoch ends in one partition's log.

    :param topic: topic name.
    :param partition: partition number.
    :param leader_epoch: the epoch that the answer is about: the newest in the log that isn't above the one asked for.
    :param end_offset: where the first record above that epoch lies; for the newest epoch the end of the leader's log,
        which may be past the high watermark. For an epoch below all that the leader remembers, where the oldest of
        them starts: a log that was cut can't be told from one that retention has shortened. Both are None when the
        leader doesn't know the epoch, because it is above the log's newest, or the log remembers none.
    :param error: Kafka's error for this partition alone.
    """

    topic: str
    partition: int
    leader_epoch: int | None = None
    end_offset: int | None = None
    error: ResponseError | None = None


class EpochEnds(PartitionMap[EpochEnd]):
    """Ends of leader epochs by partition."""

    asked = "Asking where leader epochs end"
    __slots__ = ()
