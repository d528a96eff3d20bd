"""Windows resolved again together: all of them change, or none, and whoever comes next goes on from where they end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import combinations, count
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import DataLossError, WindowOverlapError
from airflow_kafka_offsets.ledger import storage
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.tiling import seams, shared
from airflow_kafka_offsets.pipelines.snapshot_maker import SnapshotMaker
from airflow_kafka_offsets.pipelines.window_pinner import WindowPinner
from tests.integration.airflow.conftest import T0_MS, Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import DeleteBefore, XCom, ranges, stamped
from tests.integration.conftest import Produce

pytestmark = pytest.mark.nightly("resolving many windows again at once; test_cli_connections.py resolves one again")

FIRST, SECOND, THIRD = ((T0_MS + start * 1000, T0_MS + start * 1000 + 20_000) for start in (0, 20, 40))
OLD, NEW = [(0, 10), (10, 12), (12, 12)], [(0, 11), (11, 12), (12, 12)]
"""Ranges of the three, without and with what came late for the first one."""


@pytest.fixture
def first(ten: str, resolve: Resolve, produce: Produce) -> XCom:
    """The window of the first twenty seconds; records of seconds 5 and 25 came after it as offsets 10 and 11."""
    window = resolve(ten, at(0), at(20))
    produce(ten, 0, stamped(5, 25))
    return window


class TestRefused:
    """S23, E9: what was deleted meanwhile fails the task."""

    @pytest.fixture(autouse=True)
    def refused(self, ten: str, first: XCom, resolve: Resolve, delete_before: DeleteBefore) -> None:
        delete_before(ten, 3)
        with pytest.raises(AirflowFailException) as failed:
            resolve(ten, at(0), at(20), re_resolve=True)
        assert fails_with(DataLossError, failed)

    def test_it_moves_no_boundary(self, ten: str, resolve: Resolve) -> None:
        assert ranges(resolve(ten, at(20), at(40))) == [(0, 10, 12)]

    def test_its_run_gets_what_it_got_before(self, ten: str, first: XCom, resolve: Resolve) -> None:
        assert resolve(ten, at(0), at(20)) == first

    def test_neither_does_it_with_its_neighbour(self, ten: str, first: XCom, resolve: Resolve, run: Run) -> None:
        second = resolve(ten, at(20), at(40))
        assert run("ledger", "re-resolve", "loads", first["window"], second["window"])[0] != 0
        assert [resolve(ten, at(start), at(start + 20)) for start in (20, 0)] == [second, first]


class TestInterrupted:
    @pytest.fixture
    def copies(self, ten: str, first: XCom, resolve: Resolve, ledger_root: Path, tmp_path: Path) -> Iterator[Ledger]:
        """The ledger with the first two windows, over and over again."""
        resolve(ten, at(20), at(40))
        roots = (shutil.copytree(ledger_root, tmp_path / f"{number}") for number in count())
        return (Ledger(ObjectStoragePath(root.as_uri()), "loads") for root in roots)

    @pytest.fixture
    def pinner(self, ten: str, client: OffsetsClient) -> Callable[[Ledger], WindowPinner]:
        return lambda ledger: WindowPinner(SnapshotMaker(client, ledger, [ten], IsolationLevel.READ_COMMITTED))

    @pytest.mark.parametrize("for_good", [False, True], ids=["by an error", "by a kill"])
    @pytest.mark.parametrize("order", [(FIRST, SECOND, THIRD), (THIRD, SECOND, FIRST)], ids=["forwards", "backwards"])
    def test_no_two_that_count_share_offsets_and_all_tile_once_each_is_resolved(
        self,
        copies: Iterator[Ledger],
        pinner: Callable[[Ledger], WindowPinner],
        for_good: bool,
        order: tuple[tuple[int, int], ...],
    ) -> None:
        """At each file that it creates, in turn."""
        for step, ledger in enumerate(copies):
            with suppress(OSError), failing_at(step, for_good) as failed:
                pinner(ledger).re_resolve(FIRST, SECOND)
            assert not any(shared(*pair) for pair in combinations(_settled(ledger), 2)), step
            for window in (*order, *order):
                with suppress(WindowOverlapError):
                    pinner(ledger).pin(*window)
                assert not any(shared(*pair) for pair in combinations(_settled(ledger), 2)), step
            found = _settled(ledger)
            assert seams(found) == [], step
            assert [(each.start_offset, each.end_offset) for (each,) in found] in (OLD, NEW), step
            assert [claim.found for claim in verify(ledger) if not claim.holds] == [], step
            if not failed:
                break
        assert step > 10

    @pytest.mark.parametrize("for_good", [False, True], ids=["by an error", "by a kill"])
    def test_the_same_again_finishes_it(
        self, copies: Iterator[Ledger], pinner: Callable[[Ledger], WindowPinner], for_good: bool
    ) -> None:
        for step, ledger in enumerate(copies):
            with suppress(OSError), failing_at(step, for_good) as failed:
                pinner(ledger).re_resolve(FIRST, SECOND)
            pinner(ledger).re_resolve(FIRST, SECOND)
            assert [(each.start_offset, each.end_offset) for (each,) in _settled(ledger)] == NEW[:2], step
            if not failed:
                break
        assert step > 10


@contextmanager
def failing_at(step: int, for_good: bool) -> Iterator[list[int]]:
    """Let the creation of the n-th file fail, and of all after it if the process is as good as killed."""
    create, files, failed = storage._create, count(), []

    def fail(path: Any, content: bytes) -> None:
        number = next(files)
        if number == step or (for_good and number > step):
            failed.append(number)
            raise OSError("the store is away")
        create(path, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "_create", fail)
        yield failed


def _settled(ledger: Ledger) -> list[Any]:
    """Ranges of each window's newest revision that is settled: the one that is loaded, if it is loaded now."""
    pinned = [ledger.settled(window) for window in ledger.window_folders.index().live]
    return [each.manifest.ranges for each in pinned if each is not None]
