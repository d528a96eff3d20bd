"""What a session keeps of the windows that it has read."""

from __future__ import annotations

import uuid

import pytest

from dev.kafka import Broker
from tests.benchmarks.spark_memory import held_mib, write_large


@pytest.mark.nightly("drivers with a small heap")
class TestManyWindowsInOneSession:
    def test_a_small_heap_holds_however_many_come_after_each_other(self, broker: Broker) -> None:
        """Four were too many while executors kept for minutes what each task had fetched last."""
        topic = f"large-{uuid.uuid4().hex[:8]}"
        write_large(broker.bootstrap_servers, topic)
        held = held_mib("ours", broker.bootstrap_servers, topic, partitions=12, records=4_000, loads=12, heap="512m")
        assert held is not None, "out of memory"
        assert held < 256
