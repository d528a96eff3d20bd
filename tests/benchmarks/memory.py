"""Memory: the peak of a poll of a thousand groups, above the memory that the process has before, in a separate process.
Run as a module with ``ours`` or ``theirs`` and the address of the broker, it measures and prints MiB.
"""

from __future__ import annotations

import gc
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from dev import ROOT
from tests.benchmarks import lag
from tests.benchmarks.clusters import POLLED, Clusters, client
from tests.benchmarks.peers import Confluent
from tests.benchmarks.report import Row

_LIMIT_MIB = 100.0


def memory(clusters: Clusters) -> Iterator[Row]:
    """Ours, and confluent-kafka's for comparison."""
    address = clusters.single.bootstrap_servers
    ours, theirs = (_measured_elsewhere(who, address) for who in ("ours", "theirs"))
    yield Row.absolute("memory over idle, 1,000 groups x 100 partitions", ours, "MiB", limit=_LIMIT_MIB)
    yield Row.noted("… confluent-kafka's", f"{theirs:.0f} MiB")


def _measured_elsewhere(who: str, address: str) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.memory", who, address]
    return float(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(who: str, address: str) -> float:
    """The call's peak memory, MiB, including its answer."""
    if who == "theirs":
        confluent = Confluent(address)
        confluent.ends(POLLED.pieces()[:1])
        before = resident_mib("VmRSS")
        confluent.total_lag(POLLED.groups, POLLED.pieces())
        return resident_mib("VmHWM") - before
    with client(address) as ours:
        ours.cluster_id()
        gc.collect()
        before = resident_mib("VmRSS")
        assert lag.total_lag(ours, POLLED) > 0
        return resident_mib("VmHWM") - before


def resident_mib(name: str, process: int | str = "self") -> float:
    """Resident memory now (VmRSS) or its peak (VmHWM), MiB. ``getrusage`` would include the parent's before ``exec``.

    :param process: the id of another process, on Linux only.
    """
    status = Path(f"/proc/{process}/status")
    if status.exists():
        (kib,) = re.findall(rf"^{name}:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        return int(kib) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS: in bytes, and only the peak


if __name__ == "__main__":
    print(measure(*sys.argv[1:]))
