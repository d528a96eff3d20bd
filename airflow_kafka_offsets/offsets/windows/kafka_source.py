"""The source of a window: the cluster and topics that its offsets belong to, and the proof that those were read.

Offsets are only numbers: in a re-created topic, or on another cluster behind the same address, the same offsets hold
other records. So the driver asks again once everything is read and written. Topic ids are never reused, so a topic that
has its id then had it during the read. Whether a log was truncated is asked before the result is published. No I/O
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.topic_identity import identity_problems


@dataclass(frozen=True, slots=True)
class Source:
    """What a cluster said about itself and a window's topics after they were read.

    :param cluster_id: the cluster's id.
    :param topic_ids: topic ids by name (KIP-516); None from brokers before 2.8, which have none.
    :param asked_ms: when the cluster was asked, Unix milliseconds.
    """

    cluster_id: str
    topic_ids: Mapping[str, str | None]
    asked_ms: int


def topics_read(manifest: Manifest) -> list[str]:
    """The topics that a window has offsets of, in order."""
    return sorted({each.topic for each in manifest.non_empty()})


def ends_seen(manifest: Manifest) -> list[SeenOffset]:
    """Ends of the ranges that are read."""
    return [
        SeenOffset(each.topic, each.partition, each.end_offset, each.end_leader_epoch) for each in manifest.non_empty()
    ]


def starts_seen(manifest: Manifest) -> list[SeenOffset]:
    """Starts of the ranges that are read, if their end doesn't cover them already. A log that is unchanged up to the
    end is unchanged up to the start; but if the end has a later epoch, the log may have been truncated between them."""
    return [
        SeenOffset(each.topic, each.partition, each.start_offset, each.start_leader_epoch)
        for each in manifest.non_empty()
        if (epoch := each.start_leader_epoch) is not None
        and (each.end_leader_epoch is None or epoch < each.end_leader_epoch)
    ]


def source_problems(manifest: Manifest, source: Source | None) -> Iterator[str]:
    """What is wrong with the source that a window was read from."""
    if not manifest.span:
        return
    if source is None:
        yield "nobody asked Kafka after the read whether the topics were still the ones that had been resolved"
        return
    yield from identity_problems(manifest, topics_read(manifest), source.cluster_id, source.topic_ids)


def unknowable(manifest: Manifest) -> list[str]:
    """What nobody can tell about a window's source, in words; empty when the brokers are Kafka 2.8 or later."""
    found = [f"the id of {topic}" for topic in topics_read(manifest) if manifest.topics[topic].topic_id is None]
    without = sum(  # below offset 0 there is nothing to truncate
        each.end_leader_epoch is None or (each.start_offset > 0 and each.start_leader_epoch is None)
        for each in manifest.non_empty()
    )
    return found + ([f"the leader epochs of {without} partitions"] if without else [])
