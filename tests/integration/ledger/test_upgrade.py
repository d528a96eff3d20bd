"""Upgrade: a ledger that format 1 wrote, kept as it was written, is read after it was brought to format 2."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.ledger import upgrade as upgrading
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.upgrade import upgrade
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import WindowState
from airflow_kafka_offsets.offsets.snapshots import AsOfKind
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

FORMAT_1 = Path(__file__).parent / "format_1"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    shutil.copytree(FORMAT_1, tmp_path / "ledgers")
    return Ledger(ObjectStoragePath((tmp_path / "ledgers").as_uri()), "loads")


def test_it_is_refused_before_and_says_what_to_do(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"format 1.*ledger upgrade"):
        ledger.open(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)


def test_everything_is_there_afterwards(ledger: Ledger) -> None:
    assert upgrade(ledger) == (4, 2)
    ledger.open(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    assert [each.kind for each in ledger.snapshots.entries()] == [*[AsOfKind.INSTANT] * 3, AsOfKind.LATEST]
    assert [each.state for each in ledger.summaries()] == [WindowState.VERIFIED, WindowState.SUBMITTED]
    assert all(each.holds for each in verify(ledger))
    assert ledger.snapshots.append(snapshot({0: 34, 1: 80}, at_ms=T0 + 6 * HOUR_MS)).number == 5


def test_nothing_of_it_is_changed(ledger: Ledger, tmp_path: Path) -> None:
    upgrade(ledger)
    for old in FORMAT_1.rglob("*.*"):
        if old.is_file():
            assert (tmp_path / "ledgers" / old.relative_to(FORMAT_1)).read_bytes() == old.read_bytes()


def test_twice_is_once(ledger: Ledger) -> None:
    upgrade(ledger)
    assert upgrade(ledger) == (0, 0)


@pytest.mark.parametrize("survived", range(0, 18, 3))
def test_a_crash_on_the_way_leaves_format_1_and_the_next_try_goes_on(
    ledger: Ledger, survived: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = iter(range(survived))
    real = upgrading.create_exclusive

    def until_the_crash(*arguments: object) -> bool:
        if next(created, None) is None:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr("airflow_kafka_offsets.ledger.snapshot_log.create_exclusive", until_the_crash)
        patched.setattr(upgrading, "create_exclusive", until_the_crash)
        with pytest.raises(KeyboardInterrupt):
            upgrade(ledger)
    with pytest.raises(LedgerError, match="format 1"):
        ledger.exists()
    assert upgrade(ledger) == (4, 2)
    assert all(each.holds for each in verify(ledger))


def test_a_ledger_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nothing to upgrade"):
        upgrade(Ledger(ObjectStoragePath(tmp_path.as_uri()), "loads"))
