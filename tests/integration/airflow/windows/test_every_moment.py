"""Whoever publishes, resolves anew, forgets or looks at the ledger, and somebody else does all of his own meanwhile:
before each look at the store and each file, in turn.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count as count_up
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError
from airflow_kafka_offsets.ledger import storage
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, publish_next
from tests.integration.airflow.windows.counted import counted_in, pinned, published, revised, window

pytestmark = pytest.mark.nightly(
    "every moment of two at a time; windows/test_publishing.py has publishers side by side"
)

__all__ = ["pinned", "window"]
TABLE: dict[str, Any] = {"sink": "delta", "apart": False, "output": "lake.flights"}
Copies = Callable[[], Iterator[tuple[Ledger, int]]]


class TestEveryMoment:
    """Before each look at the store and each file of somebody, in turn, somebody else does all of his own."""

    @pytest.fixture
    def copies(self, ledger_root: Path, pinned: PinnedManifest, tmp_path: Path) -> Copies:
        """The ledger as it is, over and over again, each copy with its number."""

        def make() -> Iterator[tuple[Ledger, int]]:
            for number in count_up():
                root = shutil.copytree(ledger_root, tmp_path / f"{number}")
                yield Ledger(ObjectStoragePath(root.as_uri()), "loads"), number

        return make

    @pytest.mark.parametrize("fields", [{}, TABLE], ids=["files", "a table"])
    @pytest.mark.parametrize(
        ("happens", "revisions"),
        [
            (lambda ledger, pinned, of: publish_next(ledger, of(revised(ledger, pinned), "a-2")), [[2], [1, 2]]),
            (lambda ledger, pinned, of: publish_next(ledger, of(pinned, "a-2")), [[1], [1, 1]]),
            (lambda ledger, pinned, _: forget_windows(ledger, [pinned.manifest.window], "test"), [[], [1]]),
        ],
        ids=["a newer revision", "the same one", "forgetting"],
    )
    def test_what_counts_then_is_what_came_last(
        self,
        pinned: PinnedManifest,
        copies: Copies,
        happens: Callable[..., object],
        revisions: list[list[int]],
        fields: dict[str, Any],
    ) -> None:
        seen = []
        for copy, moment in copies():
            of = partial(counted_in, copy, **fields)
            old = of(pinned, started_ms=1)
            with (
                before_look(moment, partial(happens, copy, pinned, of)) as happened,
                suppress(LedgerConflictError, CommitConflictError),
            ):
                publish_next(copy, old)
            if not happened:
                break
            seen.append([revision for _, revision, *_ in published(copy, pinned)])
            counts = copy.window_folders.publication(pinned.manifest.window)
            assert (None if counts is None else counts.revision) == (revisions[0] or [None])[0], (moment, seen[-1])
            assert [claim.found for claim in verify(copy) if not claim.holds] == [], (moment, seen[-1])
        assert len(seen) >= 7
        assert all(found in revisions for found in seen), seen

    @pytest.mark.parametrize("fields", [{}, TABLE], ids=["files", "a table"])
    def test_nobody_who_looks_at_the_ledger_meanwhile_finds_fault_with_it(
        self, pinned: PinnedManifest, copies: Copies, fields: dict[str, Any]
    ) -> None:
        """Verify, and the listing: a newer revision is published over the one that counts."""
        for copy, moment in copies():
            of = partial(counted_in, copy, **fields)
            publish_next(copy, of(pinned, started_ms=1))
            newer = revised(copy, pinned)
            with before_look(moment, partial(_publish_as, copy, newer, of)) as happened:
                faults = [claim for claim in verify(copy) if not claim.holds]
                listed = copy.summaries()
            assert faults == [], moment
            assert len([window for window in listed if window.attempt]) == 1, moment
            if not happened:
                break
        assert moment > 20

    def test_two_that_resolve_anew_at_one_time_get_one_revision(self, pinned: PinnedManifest, copies: Copies) -> None:
        for copy, moment in copies():
            end = copy.snapshots.read(pinned.manifest.end_snapshot)
            number = copy.snapshots.append([replace(end, number=None, as_of=AsOf(AsOfKind.LATEST))])[0].number
            assert number is not None
            manifest = replace(pinned.manifest, end_snapshot=number)
            with before_look(moment, partial(copy.window_folders.pin_again, manifest)) as happened:
                found = copy.window_folders.pin_again(manifest)
            live = [folder.revision for folder in copy.window_folders.live(manifest.window)]
            assert (live, found.manifest.revision) == ([1, 2], 2), moment
            if not happened:
                break
        assert moment > 5

    def test_what_is_pinned_while_a_window_is_forgotten_is_forgotten_or_came_after(
        self, pinned: PinnedManifest, copies: Copies
    ) -> None:
        """One that came after its last look is the window as somebody has resolved it since."""
        for copy, moment in copies():
            late = []
            with before_look(moment, lambda: late.append(revised(copy, pinned))) as happened:  # noqa: B023
                copy.window_folders.forget(pinned.manifest.window, "test")
            live = [folder.revision for folder in copy.window_folders.live(pinned.manifest.window)]
            if not happened:
                break
            assert live in ([], [2]), moment
            assert [folder.revision for folder in copy.window_folders.made(pinned.manifest.window)] == [1, 2], moment
        assert live == []
        assert moment >= 3


def _publish_as(ledger: Ledger, pinned: PinnedManifest, of: Callable[..., CountedAttempt]) -> None:
    publish_next(ledger, of(pinned, "a-2", started_ms=2))


@contextmanager
def before_look(number: int, happens: Callable[[], object]) -> Iterator[list[int]]:
    """Let something happen before the ledger's store is asked for the n-th time. What it gives is empty if it wasn't
    asked so often."""
    happened: list[int] = []
    looks = count_up()

    def paused(look: Callable[..., Any]) -> Callable[..., Any]:
        def late(*arguments: Any, **named: Any) -> Any:
            if not happened and next(looks) == number:
                happened.append(number)
                happens()
            return look(*arguments, **named)

        return late

    with pytest.MonkeyPatch.context() as patch:
        ours = [module for name, module in sys.modules.items() if name.startswith("airflow_kafka_offsets.")]
        for look in (storage.names, storage.names_below, storage.read, storage.create_exclusive):
            for module in [module for module in ours if getattr(module, look.__name__, None) is look]:
                patch.setattr(module, look.__name__, paused(look))
        yield happened
