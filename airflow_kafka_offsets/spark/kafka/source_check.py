"""Whether the driver's Kafka is the window's: the same cluster, the same topics, and logs that weren't truncated.

Checked before the read, so that a wrong topic costs no time, and again after everything is read and written, which is
the proof: see :mod:`.windows.kafka_source`. Each check uses new clients that start from the bootstrap address.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import LogTruncatedError, TopicChangedError, UncheckedSourceError, shorten
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.kafka_source import (
    Source,
    known_ends,
    known_starts,
    tells_epochs,
    topics_read,
    with_epoch,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.topic_identity import identity_problems
from airflow_kafka_offsets.offsets.windows.truncation import FORGET_PAST, SeenOffset
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients, is_kafka_error
from airflow_kafka_offsets.spark.session.session import java_classes

_TIMEOUT_S = 60
"""Timeout for validating all logs together: the same as for Kafka's clients' own calls."""
_SETTLES_S = 5.0
"""How long a topic must be unknown before it counts as gone, because a broker's metadata may lag behind."""
_PAUSE_S = 0.5
_READ = "What was read may be other records; it isn't published."
_ELECTION = "A replica that was behind leads now (unclean leader election): the offsets hold other records."
_TRUNCATED_SINCE = (
    f"Logs of window {{window}} were truncated below its end after it was resolved: {{logs}}. {_ELECTION} "
    f"{_READ} {FORGET_PAST}"
)
_TRUNCATED_BETWEEN = (
    f"Logs of window {{window}} were truncated below its start before its end was resolved: {{logs}}. {_ELECTION} "
    f"The new records below the start are in no window. Nothing is published. Forget this window. {FORGET_PAST}"
)
_TRUNCATED = "org.apache.kafka.clients.consumer.LogTruncationException"


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """Asks Kafka where a window is read from. Needs a session with its own driver, and the reader's options."""

    spark: SparkSession
    manifest: Manifest
    options: Mapping[str, str] = field(repr=False)

    def before(self) -> None:
        """Refuse to read another cluster or topic.

        :raises TopicChangedError: naming it.
        :raises UncheckedSourceError: when Kafka can't be asked; nothing is read then.
        :raises AuthenticationError: when the brokers refuse the credentials.
        """
        if self.manifest.span:
            self._identity("Nothing was read.")

    def after(self) -> Source:
        """What was read, according to Kafka after the read.

        :raises TopicChangedError: it was another cluster or topic, or may have been.
        :raises LogTruncatedError: a log was truncated below the window's end, or below its start before the end was
            resolved, even if it has grown again since.
        :raises UncheckedSourceError: when Kafka can't be asked.
        :raises AuthenticationError: when the brokers refuse the credentials.
        """
        # Checked twice: another topic's logs look truncated, and a topic may be re-created while its logs are checked.
        self._identity(_READ)
        asked = self._refuse_truncated()
        cluster_id, topic_ids = self._identity(_READ)
        return Source(cluster_id, topic_ids, asked if tells_epochs(topic_ids) else None, now_ms())

    def _identity(self, outcome: str) -> tuple[str, dict[str, str | None]]:
        manifest = self.manifest
        with KafkaClients(self.spark, self.options).admin() as admin:
            cluster_id = str(admin.describeCluster().clusterId().get())
            topic_ids = self._topic_ids(admin, outcome)
        known = {name for name, topic in manifest.topics.items() if topic.topic_id is not None}
        silent = sorted(topic for topic, found in topic_ids.items() if found is None and topic in known)
        if silent and cluster_id == manifest.cluster_id:
            raise UncheckedSourceError(
                f"The broker that answered is too old to give the id of {shorten(silent)}, which another "
                f"broker of its cluster has given. {outcome} A retry may reach a newer one."
            )
        problems = list(identity_problems(manifest, topics_read(manifest), cluster_id, topic_ids))
        if problems:
            raise TopicChangedError(
                f"Window {manifest.window} isn't from the Kafka that the reader's options lead to: "
                f"{shorten(problems)}. {outcome} Correct kafka.bootstrap.servers if it is the wrong cluster. If a "
                "topic was re-created, its old records are gone: load the new topic under another pipeline= name."
            )
        return cluster_id, topic_ids

    def _topic_ids(self, admin: Any, outcome: str) -> dict[str, str | None]:
        names = topics_read(self.manifest)
        deadline = time.monotonic() + _SETTLES_S
        while True:
            try:
                described = admin.describeTopics(names).allTopicNames().get()
                return {name: _uuid(described.get(name).topicId()) for name in names}
            except Py4JJavaError as error:
                if not is_kafka_error(error, "UnknownTopicOrPartitionException"):
                    raise
                if time.monotonic() > deadline:
                    raise TopicChangedError(
                        f"A topic of window {self.manifest.window} ({shorten(names)}) no longer exists in the Kafka "
                        f"that the reader's options lead to. {outcome} Was it deleted, or is it another cluster?"
                    ) from error
            time.sleep(_PAUSE_S)

    def _refuse_truncated(self) -> int:
        """Refuse logs that were truncated below the window's end, or below its start before the end was resolved.
        Returns the number of logs that weren't: all whose leader epochs are known, if the brokers can tell."""
        ends, starts = known_ends(self.manifest), known_starts(self.manifest)
        for bounds, message in ((ends, _TRUNCATED_SINCE), (starts, _TRUNCATED_BETWEEN)):
            if bounds:
                with KafkaClients(self.spark, self.options).consumer() as consumer:
                    self._validate(consumer, bounds, message)
        return len(with_epoch(self.manifest))

    def _validate(self, consumer: Any, bounds: Sequence[SeenOffset], message: str) -> None:
        """Have a consumer validate its positions: Kafka's public way to ask where a leader epoch ends. ``message`` is
        the error's for logs that were truncated below them."""
        java: Any = self.spark._jvm
        make, offset_at = java.org.apache.kafka.common.TopicPartition, java.java.util.Optional.of
        position = java.org.apache.kafka.clients.consumer.OffsetAndMetadata
        partitions = [make(bound.topic, bound.partition) for bound in bounds]
        consumer.assign(partitions)
        # Fetches all leaders and their epochs: without them a consumer accepts a position as valid at once.
        consumer.endOffsets(partitions)
        epochs = {bound.leader_epoch: offset_at(bound.leader_epoch) for bound in bounds}
        for partition, bound in zip(partitions, bounds, strict=True):
            consumer.seek(partition, position(bound.offset, epochs[bound.leader_epoch], ""))
        timeout = java.java.time.Duration.ofSeconds(_TIMEOUT_S)
        try:
            for partition in partitions:
                consumer.position(partition, timeout)
        except Py4JJavaError as error:
            if _TRUNCATED not in java_classes(error):
                raise
            logs = sorted(map(str, error.java_exception.partitions()))
            raise LogTruncatedError(message.format(window=self.manifest.window, logs=shorten(logs))) from error


def _uuid(topic_id: Any) -> str | None:
    """Kafka's Base64 id in the usual UUID form; None for the zeros of a broker without topic ids."""
    found = UUID(bytes=urlsafe_b64decode(f"{topic_id.toString()}=="))
    return str(found) if found.int else None
