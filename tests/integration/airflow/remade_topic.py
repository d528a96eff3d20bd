"""A load during which its topic is made anew: after all that was checked before the read, and before the read."""

from __future__ import annotations

import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Attempt, FileSink, pinned_window
from airflow_kafka_offsets.spark.pinned import PinnedWindow

_PATIENCE_S = 60


class RemadeTopic(FileSink):
    """Files of a topic that is deleted, and made again with as many other records of the same time.

    :param path: as :class:`FileSink`.
    :param window: whose topic it is.
    :param bootstrap_servers: where it is.
    """

    def __init__(self, path: str, window: PinnedWindow, bootstrap_servers: str) -> None:
        super().__init__(path)
        self._window = window
        self._bootstrap_servers = bootstrap_servers

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        client: dict[str, str | int] = {"bootstrap.servers": self._bootstrap_servers, "log_level": 0}
        admin, (pinned,) = AdminClient(client), self._window.manifest.ranges
        admin.delete_topics([pinned.topic])[pinned.topic].result(_PATIENCE_S)
        made = NewTopic(pinned.topic, 1, 1, config={"retention.ms": "-1"})
        admin.create_topics([made])[pinned.topic].result(_PATIENCE_S)
        producer = Producer(client)
        for _ in range(pinned.end_offset):
            producer.produce(pinned.topic, b"another one", partition=0, timestamp=self._window.manifest.start_ms)
        assert producer.flush(_PATIENCE_S) == 0
        return super().replace(rows, attempt)


def load_remade(window: PinnedWindow, output: str, bootstrap_servers: str, **options: str) -> None:
    """Try to publish a window whose topic is made anew meanwhile."""
    window.write(window.read(**options), RemadeTopic(output, window, bootstrap_servers))


if __name__ == "__main__":
    load_remade(pinned_window(SparkSession.builder.getOrCreate()), *sys.argv[1:3])
