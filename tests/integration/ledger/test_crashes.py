"""A process that is killed just before or just after any file of the ledger is created: who comes next finishes the
work, to the same end as if nothing had happened."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger import storage
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.offsets.windows.tiling import seams
from tests.integration.ledger.loads import load, publish, resolve, windows_of
from tests.unit.offsets.builders import HOUR_MS, T0, offsets_of, snapshot

Work = Callable[[Ledger], object]
MOMENTS = ("before", "after")


def ledger_in(folder: Path) -> Ledger:
    return Ledger(ObjectStoragePath(folder.as_uri()), "loads")


def killed(work: Work, folder: Path, step: int, moment: str) -> bool:
    """Whether the work was killed at its nth file; False when it has fewer."""
    pid = os.fork()
    if pid:
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    steps = iter(range(step))

    def or_die(write: Callable[[Any, bytes], None]) -> Callable[[Any, bytes], None]:
        def die(path: Any, content: bytes) -> None:
            dies = next(steps, None) is None
            if dies and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            write(path, content)
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)

        return die

    storage._create, storage.replace_local = or_die(storage._create), or_die(storage.replace_local)
    try:
        work(ledger_in(folder))
    finally:
        os._exit(0)


def at_every_step(work: Work, start: Path, tmp_path: Path) -> Iterator[Ledger]:
    """Ledgers after a crash at each file and a second try that isn't disturbed."""
    for moment in MOMENTS:
        for step in range(1_000):
            folder = tmp_path / f"{moment}-{step}"
            if start.exists():
                shutil.copytree(start, folder)
            died = killed(work, folder, step, moment)
            work(ledger_in(folder))
            yield ledger_in(folder)
            if not died:
                assert step > 5, "the work creates files"
                break


def load_three(ledger: Ledger) -> None:
    ledger.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    for hour in (-30, -28, -29):
        load(ledger, hour)
    verify(ledger)


def test_loading(tmp_path: Path) -> None:
    """Pipeline, snapshots, markers, manifests, hashes, attempts, results, publications, lists of files, verdicts, a
    checkpoint."""
    undisturbed = ledger_in(tmp_path / "undisturbed")
    load_three(undisturbed)
    for survivor in at_every_step(load_three, tmp_path / "none", tmp_path):
        assert _summaries(survivor) == _summaries(undisturbed)
        assert _lists(survivor) == _lists(undisturbed)
        assert survivor.snapshots.entries() == undisturbed.snapshots.entries()
        assert all(each.holds for each in verify(survivor, full=True))


def publish_again(ledger: Ledger) -> None:
    """A newer revision of the last window, which takes the place of the published one."""
    manifest = ledger.pinned(windows_of(ledger)[-1].id).manifest
    if manifest.revision == 1:
        end = ledger.snapshots.read(manifest.end_snapshot)
        stored = ledger.snapshots.append([replace(end, number=None, as_of=AsOf(AsOfKind.LATEST))])[0]
        assert stored.number is not None
        manifest = replace(manifest, end_snapshot=stored.number)
    pinned = ledger.window_folders.pin_again(manifest)
    verdict = judge(pinned.manifest, publish(ledger, pinned, "b-1"))
    ledger.window_folders.of(pinned).record_verified("b-1", verdict)


def test_publishing_again(tmp_path: Path) -> None:
    """A marker by which checkpoints of the day are left unread, the second publication, and the list of its files."""
    start = ledger_in(tmp_path / "start")
    load_three(start)
    window = windows_of(start)[-1].id
    for survivor in at_every_step(publish_again, tmp_path / "start", tmp_path):
        counts = survivor.window_folders.publication(window)
        assert counts is not None
        assert (counts.number, counts.attempt, counts.replaces) == (2, "b-1", 1)
        (*_, last) = survivor.summaries()
        assert (last.window, last.attempt) == (window, "b-1")
        assert [each for each in verify(survivor) if not each.holds] == []


def _summaries(ledger: Ledger) -> list[WindowSummary]:
    """But the manifests' hashes: each ledger's carry its own identity."""
    return [replace(each, sha256="") for each in ledger.summaries()]


def _lists(ledger: Ledger) -> dict[str, str]:
    """The lists of files, by window."""
    folder = Path(str(ledger.folder).removeprefix("file://")) / "files"
    return {each.parent.name: each.read_text() for each in folder.glob("*/*")}


def test_forgetting(tmp_path: Path) -> None:
    """An instant's two files, two windows, and their lists."""
    start = ledger_in(tmp_path / "start")
    load_three(start)
    forgotten = [each.id for each in windows_of(start)[1:]]
    for survivor in at_every_step(partial(forget_windows, windows=forgotten, why="test"), tmp_path / "start", tmp_path):
        assert [each.id for each in windows_of(survivor)] == [windows_of(start)[0].id]
        assert [_lists(survivor)[f"window={each}"] for each in forgotten] == ["", ""]


def resolve_anew(ledger: Ledger) -> None:
    first = windows_of(ledger)[0].id if windows_of(ledger) else ""
    if first.startswith("20261121T06"):
        forget_windows(ledger, [first], "test")
    fresh = [snapshot({0: 1003}, at_ms=T0), snapshot({0: 9999}, at_ms=T0 + HOUR_MS)]
    pin_window(ledger, *ledger.snapshots.append(fresh))


def test_resolving_anew(tmp_path: Path) -> None:
    """Wherever it dies: afterwards the window counts once, from snapshots that count, and meets its neighbour."""
    start = ledger_in(tmp_path / "start")
    start.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    resolve(start, 0)
    resolve(start, 1)
    for survivor in at_every_step(resolve_anew, tmp_path / "start", tmp_path):
        manifests = [survivor.pinned(each.id).manifest for each in windows_of(survivor)]
        assert [each.start_ms - T0 for each in manifests] == [0, HOUR_MS]
        assert manifests[0].ranges[0].start_offset == 1003
        assert seams([each.ranges for each in manifests]) == []
        live = {each.number for each in survivor.snapshots.entries()}
        assert {manifests[0].start_snapshot, manifests[0].end_snapshot} <= live


def take_increments(ledger: Ledger) -> None:
    ledger.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    for number, run in enumerate(("aa", "bb"), 1):
        if ledger.snapshots.increment(run) is None:
            first = ledger.snapshots.append([snapshot({0: 0}, at_ms=T0 + HOUR_MS, kind=AsOfKind.EARLIEST)])[0]
            as_of = AsOf(AsOfKind.INCREMENT, run=run, follows=first.number)
            ledger.snapshots.append([replace(snapshot({0: number * 10}, at_ms=T0 + number), as_of=as_of)])
        found = ledger.snapshots.increment(run)
        assert found is not None
        pin_window(ledger, *found)


def test_increments(tmp_path: Path) -> None:
    """Each run has one increment, and they tile."""
    for survivor in at_every_step(take_increments, tmp_path / "none", tmp_path):
        ranges = [survivor.pinned(each.id).manifest.ranges[0] for each in windows_of(survivor)]
        assert [(each.start_offset, each.end_offset) for each in ranges] == [(0, 10), (10, 20)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_clocks_that_differ_corrupt_nothing(tmp_path: Path, order: tuple[int, ...]) -> None:
    """Three writers, whose clocks stand minutes apart, take turns: latest snapshots stay in the order of their
    making."""
    ledger = ledger_in(tmp_path)
    offsets = iter(range(100, 1000, 100))
    for _ in range(3):
        for writer in order:
            skewed = snapshot({0: next(offsets)}, at_ms=T0 + writer * 2 * 60_000, kind=AsOfKind.LATEST)
            ledger.snapshots.append([skewed])
    chain = [ledger.snapshots.read(each.number) for each in ledger.snapshots.entries()]
    assert [each.number for each in chain] == list(range(1, 10))
    found = [next(iter(offsets_of(each).values())) for each in chain]
    assert found == sorted(found) == list(range(100, 1000, 100))
    assert all(earlier.timestamp_ms < later.timestamp_ms for earlier, later in pairwise(chain))
