"""Many writers at once, on a disk and on S3: none fails, none starves."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from tests.integration.ledger.loads import increment, publish, resolve, verify, windows_of
from tests.unit.offsets.builders import T0, snapshot

SLOWEST = 20
"""How much longer than the median the slowest one may take."""


def opened(root: str) -> Ledger:
    return Ledger(ObjectStoragePath(root), "loads")


def test_500_increments_by_16_threads_are_one_row(ledger: Ledger, root: str) -> None:
    """Each follows the one before it, whatever it was told."""

    def take(run: int) -> float:
        began_s, own = time.monotonic(), opened(root)
        at_ms = T0 + run
        origin = snapshot({0: 0}, at_ms=T0 - 1, kind=AsOfKind.EARLIEST)
        increment(own, f"run-{run}", snapshot({0: 1_000}, at_ms=at_ms, kind=AsOfKind.LATEST), origin)
        return time.monotonic() - began_s

    with ThreadPoolExecutor(16) as pool:
        took_s = list(pool.map(take, range(500)))
    windows = windows_of(ledger)
    assert len(windows) == 500
    assert sum(each.offsets for each in windows) == 1_000
    assert all(earlier.end_ms == later.start_ms for earlier, later in pairwise(windows))
    assert max(took_s) <= SLOWEST * median(took_s), (max(took_s), median(took_s))


def test_200_tasks_of_a_backfill_that_pin_load_and_publish_side_by_side(ledger: Ledger, root: str) -> None:
    def load(hour: int) -> float:
        began_s, own = time.monotonic(), opened(root)
        verify(own, publish(own, resolve(own, hour)))
        return time.monotonic() - began_s

    with ThreadPoolExecutor(32) as pool:
        took_s = list(pool.map(load, range(200)))
    windows = windows_of(ledger)
    assert [each.publication is not None and each.publication.verdict for each in windows] == [{"gaps": 0}] * 200
    assert all(earlier.end_ms == later.start_ms for earlier, later in pairwise(windows))
    assert max(took_s) <= SLOWEST * median(took_s), (max(took_s), median(took_s))
