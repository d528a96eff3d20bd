"""A process that is killed just before or just after any file of the ledger is created: who comes next finishes the
work, to the same end as if nothing had happened."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger import corrections, decisions, file_lists, load_decisions, storage
from airflow_kafka_offsets.ledger.counted import left_to_publish
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.verification import verify as verify_ledger
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from tests.integration.ledger.loads import (
    AT_T0,
    at_hour,
    begin,
    increment,
    load,
    pin,
    publish_asked,
    resolve,
    restart,
    store_result,
    verify,
    window,
    windows_of,
)
from tests.integration.ledger.results import result_of
from tests.unit.offsets.builders import T0, snapshot

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


def at_every_step(work: Work, start: Path, tmp_path: Path, at_least: int) -> Iterator[Ledger]:
    """Ledgers after a crash at each file and a second try that isn't disturbed.

    :param at_least: how many files the work creates, at least.
    """
    for moment in MOMENTS:
        for step in range(1_000):
            folder = tmp_path / f"{moment}-{step}"
            if start.exists():
                shutil.copytree(start, folder)
            died = killed(work, folder, step, moment)
            work(ledger_in(folder))
            yield ledger_in(folder)
            if not died:
                assert step >= at_least, "the work creates files"
                break


def created(folder: Path) -> Ledger:
    ledger = ledger_in(folder)
    ledger.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return ledger


def load_hour(ledger: Ledger, hour: int) -> None:
    """As tasks do it, which look at what there is: whoever died, the next one goes on."""
    pinned = resolve(ledger, hour)
    if pinned.loaded is None:
        left = left_to_publish(ledger, pinned)
        if left is None:
            attempt = begin(ledger, pinned)
            left = store_result(ledger, pinned, result_of(ledger, pinned, attempt))
        publish_asked(left)
    else:
        file_lists.correct(ledger, pinned.name)
    verify(ledger, ledger.window(pinned.name))


def load_three(ledger: Ledger) -> None:
    ledger.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    for hour in (-30, -28, -29):
        load_hour(ledger, hour)
    verify_ledger(ledger)


def standing(ledger: Ledger) -> list[tuple[Any, ...]]:
    """What each window is, but for numbers, and hashes that hold the ledger's own identity."""
    return [
        (each.name, each.offsets, each.publication and (each.publication.outputs, each.publication.verdict))
        for each in windows_of(ledger)
    ]


def lists(ledger: Ledger) -> dict[str, str]:
    """The lists of files, by window."""
    folder = Path(str(ledger.folder).removeprefix("file://")) / "files"
    return {each.parent.name: each.read_text() for each in folder.glob("*/*") if not each.name.startswith(".")}


def in_order(ledger: Ledger) -> bool:
    return all(each.holds for each in verify_ledger(ledger, full=True))


def test_loading(tmp_path: Path) -> None:
    """The ledger, snapshots, manifests, attempts, results, publications, lists of files, verdicts."""
    undisturbed = ledger_in(tmp_path / "undisturbed")
    load_three(undisturbed)
    for survivor in at_every_step(load_three, tmp_path / "none", tmp_path, 20):
        assert standing(survivor) == standing(undisturbed)
        assert lists(survivor) == lists(undisturbed)
        assert in_order(survivor)


def test_a_commit_that_makes_a_checkpoint(tmp_path: Path) -> None:
    start = created(tmp_path / "start")
    made = load(start, 0)
    while start.state.number < 50:
        start.change(lambda state: load_decisions.reload(state, [made.name]))

    def reload_once(ledger: Ledger) -> None:
        ledger.change(lambda state: load_decisions.reload(state, [made.name]) if state.number < 51 else ())

    for survivor in at_every_step(reload_once, tmp_path / "start", tmp_path, 2):
        assert survivor.read().number == 51
        assert survivor.window(made.name).reloaded == 51


def change(decide: Callable[..., Any], ledger: Ledger, **wish: Any) -> None:
    ledger.change(lambda state: decide(state, **wish))


def test_a_reload_and_the_load_that_follows_it(tmp_path: Path) -> None:
    start = created(tmp_path / "start")
    name = load(start, 0).name

    def reload_and_load(ledger: Ledger) -> None:
        change(load_decisions.reload, ledger, windows=[name], by="run-1")
        load_hour(ledger, 0)

    for survivor in at_every_step(reload_and_load, tmp_path / "start", tmp_path, 5):
        found = survivor.window(name)
        assert found.loaded is not None
        assert found.loaded.attempt > found.reloaded
        assert in_order(survivor)


def test_a_void_and_a_longer_window_in_its_place(tmp_path: Path) -> None:
    start = created(tmp_path / "start")
    name = resolve(start, 0).name

    def void_and_resolve(ledger: Ledger) -> None:
        if name in ledger.read().windows:
            change(corrections.void, ledger, windows=[name])
        resolve(ledger, 0, 2)

    for survivor in at_every_step(void_and_resolve, tmp_path / "start", tmp_path, 4):
        assert [each.name for each in windows_of(survivor)] == [window(0, 2)]
        assert in_order(survivor)


def test_a_rewind_and_what_is_resolved_after_it(tmp_path: Path) -> None:
    start = created(tmp_path / "start")
    load(start, 0)
    resolve(start, 1)

    def rewind_and_resolve(ledger: Ledger) -> None:
        if not any(window.offsets == 5 for window in ledger.read().windows.values()):
            change(corrections.rewind, ledger, to_ms=windows_of(ledger)[0].end_ms)
        pin(ledger, at_hour(1), at_hour(2, AT_T0 + 15))

    for survivor in at_every_step(rewind_and_resolve, tmp_path / "start", tmp_path, 4):
        assert [each.offsets for each in windows_of(survivor)] == [10, 5]
        assert not [each for each in verify_ledger(survivor, full=True) if each.claim == "window" and not each.holds]


def test_a_restart_and_the_window_after_it(tmp_path: Path) -> None:
    start = created(tmp_path / "start")
    load(start, 0)

    def restart_and_resolve(ledger: Ledger) -> None:
        if not ledger.read().restarts:
            restart(ledger)
        pin(ledger, at_hour(1), snapshot({0: 7}, at_ms=T0 + 2 * 3_600_000, topic_id="id-2"))

    for survivor in at_every_step(restart_and_resolve, tmp_path / "start", tmp_path, 4):
        assert [each.offsets for each in windows_of(survivor)] == [10, 7]
        (seam,) = survivor.state.restarts
        assert seam.unloaded == (LogRange("t", 0, AT_T0 + 10, AT_T0 + 1010),)


def take_increments(ledger: Ledger) -> None:
    ledger.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    origin = snapshot({0: 0}, at_ms=T0 - 1, kind=AsOfKind.EARLIEST)
    for number, run in enumerate(("aa", "bb"), 1):
        increment(ledger, run, snapshot({0: number * 10}, at_ms=T0 + number, kind=AsOfKind.LATEST), origin)


def test_increments(tmp_path: Path) -> None:
    """Each run has one increment, and they tile."""
    for survivor in at_every_step(take_increments, tmp_path / "none", tmp_path, 5):
        found: list[Window] = windows_of(survivor)
        ranges = [survivor.pinned(each).manifest.ranges[0] for each in found]
        assert [(each.start_offset, each.end_offset) for each in ranges] == [(0, 10), (10, 20)]
        assert all(earlier.end_ms == later.start_ms for earlier, later in pairwise(found))


def test_a_bulk_resolve_is_one_step(tmp_path: Path) -> None:
    """720 windows, of which all are pinned or none: here a few, as the files before the commit count for nothing."""
    start = created(tmp_path / "start")
    instants = [T0 + hour * 3_600_000 for hour in range(5)]

    def resolve_all(ledger: Ledger) -> None:
        found = {at: ledger.contents.add_snapshot(snapshot({0: place}, at_ms=at)) for place, at in enumerate(instants)}
        asked = decisions.ResolvedOffsets(ledger.state.number, 2 * T0, found)
        windows = list(pairwise(instants))
        ledger.change(partial(decisions.pin, windows=windows, answers=asked, contents=ledger.contents))

    for moment in MOMENTS:
        for step in range(20):
            folder = tmp_path / f"{moment}-{step}"
            shutil.copytree(tmp_path / "start", folder)
            died = killed(resolve_all, folder, step, moment)
            assert len(windows_of(ledger_in(folder))) in (0, 4)
            if not died:
                break
    assert start.exists
