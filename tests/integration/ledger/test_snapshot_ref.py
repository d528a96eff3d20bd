"""What one task hands to the next of a snapshot, on a local ledger: it names that snapshot and no other one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.ledger.forgetting import forget_snapshots
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from airflow_kafka_offsets.operators.resolve_window import _stored
from airflow_kafka_offsets.references.snapshot_ref import SnapshotRef, offsets_in
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot


def made(root: Path) -> Ledger:
    """The pipeline's ledger, made where there is none."""
    ledger = Ledger(ObjectStoragePath(root.as_uri()), "orders")
    ledger.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return ledger


def stored(ledger: Ledger, offset: int, at_ms: int = T0 + HOUR_MS) -> dict[str, Any]:
    """Store a snapshot; the XCom."""
    kept = ledger.snapshots.append([snapshot({0: offset}, at_ms=at_ms, kind=AsOfKind.LATEST)])[0]
    return SnapshotRef.of(ledger, kept).to_json()


def use(xcom: Any, ledger_root: Path) -> None:
    """Give it to each kind of task that takes it."""
    errors = []
    for take in (
        lambda: offsets_in(xcom, "target"),
        lambda: _stored(ledger_of(ledger_root.as_uri(), "orders"), "start", xcom),
    ):
        with pytest.raises(LedgerConflictError) as failed:
            take()
        errors.append(failed.value)
    raise errors[0]


def test_it_is_read_by_what_takes_it(tmp_path: Path) -> None:
    xcom = stored(made(tmp_path), 1000)
    assert [offset for _, offset in offsets_in(xcom, "target").items()] == [1000]


def test_one_that_was_forgotten_is_refused(tmp_path: Path) -> None:
    """``ledger forget-snapshots`` has taken back what a wrong clock had stored."""
    ledger = made(tmp_path)
    xcom = stored(ledger, 1000)
    forget_snapshots(ledger, T0)
    with pytest.raises(LedgerConflictError, match=r"Snapshot 1 as of latest, .* was forgotten") as failed:
        use(xcom, tmp_path)
    assert "Clear the task that stored it, and this one" in str(failed.value)


def test_one_of_a_ledger_that_was_made_anew_in_that_place_is_refused(tmp_path: Path) -> None:
    """Otherwise its number would name another snapshot, and a wait would end early."""
    xcom = stored(made(tmp_path), 1000)
    shutil.rmtree(tmp_path / "orders")
    stored(made(tmp_path), 7)
    with pytest.raises(LedgerConflictError, match="belongs to another ledger") as failed:
        use(xcom, tmp_path)
    assert "Clear the task that stored it, and this one" in str(failed.value)


def test_a_file_that_was_replaced_by_another_snapshot_is_refused(tmp_path: Path) -> None:
    xcom = stored(made(tmp_path), 1000)
    with pytest.raises(LedgerConflictError, match="Snapshot 1 as of latest"):
        use(xcom | {"resolved_at": "2026-11-20T06:00:00.000Z"}, tmp_path)


@pytest.mark.parametrize("left_out", ["ledger_id", "snapshot", "as_of", "resolved_at"])
def test_what_does_not_say_which_one_it_means_is_none(tmp_path: Path, left_out: str) -> None:
    xcom = stored(made(tmp_path), 1000)
    del xcom[left_out]
    with pytest.raises(ConfigurationError, match="target= takes what KafkaOffsetSnapshotOperator"):
        offsets_in(xcom, "target")


def test_what_another_version_wrote_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="target= takes what KafkaOffsetSnapshotOperator"):
        offsets_in(stored(made(tmp_path), 1000) | {"version": 2}, "target")


def test_what_is_wrong_with_a_window_is_said_of_the_argument_that_has_it() -> None:
    with pytest.raises(ConfigurationError, match=r"^until= takes what KafkaResolveWindowOperator"):
        offsets_in({"version": 1, "window": "20261121T060000000Z_20261121T070000000Z"}, "until")
