"""Many writers at once, on a disk and on S3: none fails, none starves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from tests.integration.ledger.loads import increment, publish, resolve, verify, windows_of
from tests.unit.offsets.builders import T0, snapshot

SLOWEST = 20
"""How many times as many others as the median one the slowest one may see end before itself."""


def side_by_side(work: Callable[[Ledger, int], object], ledger: Ledger, count: int, threads: int) -> list[Window]:
    """The windows after some tasks, each with a ledger of its own, of which none was overtaken by many."""
    root, ended = ledger.uri.rpartition("/")[0], list[int]()

    def overtaken(number: int) -> int:
        before = len(ended)
        work(Ledger(ObjectStoragePath(root), "loads"), number)
        ended.append(number)
        return len(ended) - before

    with ThreadPoolExecutor(threads) as pool:
        by = list(pool.map(overtaken, range(count)))
    assert max(by) <= SLOWEST * median(by), (max(by), median(by))
    windows = windows_of(ledger)
    assert len(windows) == count
    assert all(earlier.end_ms == later.start_ms for earlier, later in pairwise(windows))
    return windows


def take(ledger: Ledger, run: int) -> None:
    """A run's increment, which follows the one before it, whatever it was told."""
    origin = snapshot({0: 0}, at_ms=T0 - 1, kind=AsOfKind.EARLIEST)
    increment(ledger, f"run-{run}", snapshot({0: 1_000}, at_ms=T0 + run, kind=AsOfKind.LATEST), origin)


def load(ledger: Ledger, hour: int) -> None:
    """A task of a backfill, from the instants to the verdict."""
    verify(ledger, publish(ledger, resolve(ledger, hour)))


def are_one_row(windows: list[Window]) -> bool:
    return sum(each.offsets for each in windows) == 1_000


def are_verified(windows: list[Window]) -> bool:
    return all(each.publication is not None and each.publication.verdict for each in windows)


MANY = pytest.mark.nightly("a minute each; a few of them show the same")


@pytest.fixture
def share(root: str) -> float:
    """How much of many is done on this store: moto answers a hundredth of what S3 does, and each that loses a number
    asks it again."""
    return 0.2 if root.startswith("s3") else 1.0


@pytest.mark.parametrize(("count", "threads"), [(12, 6), pytest.param(500, 16, marks=MANY)])
def test_increments_are_one_row(ledger: Ledger, share: float, count: int, threads: int) -> None:
    assert are_one_row(side_by_side(take, ledger, max(12, round(count * share)), threads))


@pytest.mark.parametrize(("count", "threads"), [(12, 6), pytest.param(200, 32, marks=MANY)])
def test_tasks_of_a_backfill_pin_load_and_publish(ledger: Ledger, share: float, count: int, threads: int) -> None:
    assert are_verified(side_by_side(load, ledger, max(12, round(count * share)), max(6, round(threads * share))))
