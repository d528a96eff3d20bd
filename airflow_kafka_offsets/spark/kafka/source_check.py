"""Whether the driver's Kafka is the window's: the same cluster, and the same topics.

Checked before the read, so that a wrong topic costs no time, and again after everything is read and written, which is
the proof: see :mod:`.windows.kafka_source`. Each check uses new clients that start from the bootstrap address. Whether
a log was truncated is asked before the result is published.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import TopicChangedError, UncheckedSourceError, shorten
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, topics_read
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.topic_identity import identity_problems
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients, is_kafka_error

_SETTLES_S = 5.0
"""How long a topic must be unknown before it counts as gone, because a broker's metadata may lag behind."""
_PAUSE_S = 0.5
_READ = "What was read may be other records; it isn't published."


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
        self._identity("Nothing was read.")

    def after(self) -> Source:
        """What was read, according to Kafka after the read.

        :raises TopicChangedError: it was another cluster or topic, or may have been.
        :raises UncheckedSourceError: when Kafka can't be asked.
        :raises AuthenticationError: when the brokers refuse the credentials.
        """
        cluster_id, topic_ids = self._identity(_READ)
        return Source(cluster_id, topic_ids, now_ms())

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
                "topic was re-created, its old records are gone: kafka-offsets ledger restart begins the new one."
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


def _uuid(topic_id: Any) -> str | None:
    """Kafka's Base64 id in the usual UUID form; None for the zeros of a broker without topic ids."""
    found = UUID(bytes=urlsafe_b64decode(f"{topic_id.toString()}=="))
    return str(found) if found.int else None
