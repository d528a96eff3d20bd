"""Batches that unpack to hundreds of megabytes, on a real broker: what reading them costs whoever waits for records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from dev import ROOT
from dev.kafka import Broker
from tests.integration.conftest import MakeTopic

pytest.importorskip("lz4")
pytest.importorskip("snappy")
pytest.importorskip("zstandard")

from tests.integration.client.bombs import CODECS, MIB, SNAPPY, T0, bomb, produce
from tests.patience import RUN_S

PARTITIONS = 3
UNPACKED = 400 * MIB
SNAPPY_UNPACKED = 160 * MIB
"""Snappy makes a tenth of it at best."""
ALLOWED = 100 * MIB
"""What the process may grow by: the answer with the packed batches, several times over, and a window of a codec."""

READER = """
import json, resource, sys, threading, time
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

servers, topic, partitions, at_ms = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
positions = [ReadPosition(topic, number, 0) for number in range(partitions)]
with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": servers}), timeout_s=60) as client:
    client.log_extents(client.partitions_of([topic]))
    before = resident()
    told = {
        "any": [[each.offset, each.error and each.error.name] for each in client.first_records(positions)],
        "late": [
            [each.offset, each.error and each.error.name]
            for each in client.first_records(positions, at_or_after_ms=at_ms)
        ],
        "counts": [
            [each.records, each.error and each.error.name]
            for each in client.log_contents([LogRange(topic, number, 0, 2) for number in range(partitions)])
        ],
    }
    print(json.dumps(told | {"grown": resident() - before}))
"""


def read(broker: Broker, topic: str, partitions: int) -> Any:
    """What a process of its own reads, and by how much it grew."""
    command = [sys.executable, "-c", READER, broker.bootstrap_servers, topic, str(partitions), str(T0 + 1)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=RUN_S
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestMemory:
    @pytest.mark.parametrize("codec", CODECS)
    def test_does_not_grow_with_what_batches_unpack_to(self, broker: Broker, topic: MakeTopic, codec: str) -> None:
        """Bombs on several partitions in one answer, beside one whose second record is the late one."""
        name = topic(partitions=PARTITIONS + 1, config={"max.message.bytes": str(32 * MIB)})
        stored = bomb(CODECS[codec], SNAPPY_UNPACKED if CODECS[codec] == SNAPPY else UNPACKED)
        for partition in range(PARTITIONS):
            produce(broker, name, partition, stored)
        produce(broker, name, PARTITIONS, bomb(CODECS[codec], 1000))
        told = read(broker, name, PARTITIONS + 1)
        assert told["any"] == [[0, None]] * (PARTITIONS + 1), "the header and the first piece tell"
        assert told["late"] == [[None, "MESSAGE_TOO_LARGE"]] * PARTITIONS + [[1, None]]
        assert told["counts"] == [[2, None]] * (PARTITIONS + 1), "headers tell"
        room = ALLOWED + (5 * PARTITIONS * len(stored))
        assert told["grown"] < room, f"{told['grown'] // MIB} MiB more, of {room // MIB}"
