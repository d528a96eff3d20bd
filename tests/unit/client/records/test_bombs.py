"""Batches that unpack to hundreds of megabytes: what reading them costs the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev import ROOT

pytest.importorskip("lz4")
pytest.importorskip("snappy")
pytest.importorskip("zstandard")

from tests.patience import RUN_S
from tests.unit.client.records.bombs import CODECS, MIB, SNAPPY, T0, bomb

UNPACKED = 400 * MIB
SNAPPY_UNPACKED = 160 * MIB
"""Snappy makes a tenth of it at best."""
ALLOWED = 100 * MIB
"""What the process may grow by: the most that is unpacked, twice, and a window of a codec."""

READER = """
import json, sys
from pathlib import Path
from airflow_kafka_offsets.client.records.record_batches import count_batches, read_first_record
from airflow_kafka_offsets.offsets.answers.records import LogContent

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

stored, late_ms = Path(sys.argv[1]).read_bytes(), int(sys.argv[2])
before = resident()
first, late = read_first_record(stored, [], 0), read_first_record(stored, [], 0, late_ms)
counted = count_batches(stored, [], LogContent("t", 0, 0, 2))
told = {
    "any": [first.record and first.record.offset, first.error and first.error.name],
    "late": [late.record and late.record.offset, late.error and late.error.name],
    "counts": [counted.records, counted.error and counted.error.name],
}
print(json.dumps(told | {"grown": resident() - before}))
"""


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("is_bomb", [True, False])
def test_memory_does_not_grow_with_what_batches_unpack_to(tmp_path: Path, codec: str, is_bomb: bool) -> None:
    """The second record is the late one."""
    unpacked = SNAPPY_UNPACKED if CODECS[codec] == SNAPPY else UNPACKED
    stored = bomb(CODECS[codec], unpacked if is_bomb else 1000)
    (tmp_path / "batch").write_bytes(stored)
    command = [sys.executable, "-c", READER, str(tmp_path / "batch"), str(T0 + 1)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["any"] == [0, None], "the header and the first piece tell"
    assert told["late"] == ([None, "MESSAGE_TOO_LARGE"] if is_bomb else [1, None])
    assert told["counts"] == [2, None], "the header tells"
    assert told["grown"] < ALLOWED, f"{told['grown'] // MIB} MiB more"
