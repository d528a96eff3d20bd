"""A window of five records, and what drivers have counted of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, counted_attempt
from tests.integration.airflow.conftest import (
    Resolve,
    at,
)
from tests.integration.airflow.windows.conftest import XCom
from tests.unit.offsets.proof.results import run_result, tallies

Count = Callable[..., CountedAttempt]


@pytest.fixture
def window(ten: str, resolve: Resolve) -> XCom:
    """Five records, resolved and not loaded."""
    return resolve(ten, at(2), at(7))


@pytest.fixture
def pinned(window: XCom, ledger: Ledger) -> PinnedManifest:
    return ledger.pinned(window["window"])


@pytest.fixture
def count(ledger: Ledger) -> Count:
    """As :func:`counted_in` the ledger."""
    return partial(counted_in, ledger)


def counted_in(ledger: Ledger, pinned: PinnedManifest, attempt: str = "a-1", **fields: Any) -> CountedAttempt:
    """Leave in a ledger what a driver leaves that has read and written each offset once."""
    folder = ledger.window_folders.of(pinned)
    folder.record_attempt(attempt, {})
    folder.record_result(run_result(pinned.manifest, tallies(pinned.manifest), attempt=attempt, **fields))
    counted = counted_attempt(ledger, pinned, attempt)
    assert counted is not None
    return counted


def published(ledger: Ledger, pinned: PinnedManifest) -> list[tuple[int, int, str, int | None]]:
    """Number, revision, attempt and what each replaces."""
    found = ledger.window_folders.of(pinned).publications.all()
    return [(each.number, each.revision, each.attempt, each.replaces) for each in found]


def revised(ledger: Ledger, pinned: PinnedManifest) -> PinnedManifest:
    """The window resolved anew, to another snapshot at its end with the same offsets."""
    end = ledger.snapshots.read(pinned.manifest.end_snapshot)
    stored = ledger.snapshots.append([replace(end, number=None, as_of=AsOf(AsOfKind.LATEST))])[0]
    assert stored.number is not None
    return ledger.window_folders.pin_again(replace(pinned.manifest, end_snapshot=stored.number))


def left_of(ledger: Ledger, pinned: PinnedManifest) -> PinnedManifest:
    """What retention left of the window, as its next revision."""
    (only,) = pinned.manifest.ranges
    return ledger.window_folders.pin_again(
        replace(pinned.manifest, ranges=(replace(only, start_offset=only.start_offset + 1, lost_offsets=1),))
    )
