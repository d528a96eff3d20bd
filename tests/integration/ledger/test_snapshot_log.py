"""The log of snapshots: what a writer that lost a race leaves there, and what others make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from upath import UPath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.snapshot_index import Entry
from airflow_kafka_offsets.ledger.storage import create_exclusive, names
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from tests.unit.offsets.builders import HOUR_MS, T0, offsets_of, snapshot

MONTH_MS = 30 * 24 * HOUR_MS
NEXT_MONTH = "202612"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(UPath(tmp_path), "loads")
    made.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return made


def leave_marker(ledger: Ledger, entry: Entry) -> None:
    """The marker of an entry that its writer never stored, as another one took its number."""
    create_exclusive(ledger.folder / "instants" / entry.month / entry.marker, entry.marker.encode())


@pytest.fixture
def raced(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Before the next snapshot is stored under its number, another writer takes that number."""
    other = Ledger(UPath(str(ledger.folder)).parent, "loads")
    create: Any = ledger.snapshots._create

    def late(entry: Entry, fields: dict[str, Any]) -> bool:
        monkeypatch.undo()
        other.snapshots.append([snapshot({0: 5}, at_ms=T0 - HOUR_MS)])
        return bool(create(entry, fields))

    monkeypatch.setattr(ledger.snapshots, "_create", late)
    return ledger


class TestALostRace:
    def test_leaves_no_marker(self, raced: Ledger) -> None:
        raced.snapshots.append([snapshot({0: 10})])
        assert len(names(raced.folder / "instants" / "202611")) == 2

    def test_needs_no_permission_to_delete(self, raced: Ledger) -> None:
        """A bucket whose policy grants s3:PutObject and not s3:DeleteObject."""

        def denied(path: str) -> None:
            raise PermissionError(f"AccessDenied: s3:DeleteObject on {path}")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(raced.folder.fs), "rm_file", lambda _, path: denied(path))
            (stored,) = raced.snapshots.append([snapshot({0: 10})])
        assert stored.number == 2
        assert [entry.number for entry in raced.snapshots.entries()] == [1, 2]


class TestWhoStoredIt:
    def test_is_told_of_each(self, ledger: Ledger) -> None:
        """An instant that another task has stored, and one whose old offsets come back, tell of another survey."""
        ledger.snapshots.append([snapshot({0: 10})])
        pin_window(ledger, *ledger.snapshots.append([snapshot({0: 10}), snapshot({0: 20}, at_ms=T0 + HOUR_MS)]))
        ledger.snapshots.forget(T0 + HOUR_MS)
        found = ledger.snapshots.append(
            [snapshot({0: each}, at_ms=T0 + hour * HOUR_MS) for hour, each in enumerate((11, 25, 35))]
        )
        assert ([each.number for each in found], found.fresh) == ([1, 4, 5], {5})

    def test_is_told_after_a_lost_race(self, raced: Ledger) -> None:
        found = raced.snapshots.append([snapshot({0: 10}), snapshot({0: 20}, at_ms=T0 + HOUR_MS)])
        assert found.fresh == {each.number for each in found} == {2, 3}


class TestEntriesSinceAMonth:
    def test_leave_out_one_whose_number_an_earlier_month_has(self, ledger: Ledger) -> None:
        """An increment's writer died with its marker, and a backfill of last month took the number."""
        ledger.snapshots.append([snapshot({0: 10})])
        leave_marker(ledger, Entry(T0 + MONTH_MS, 1, AsOfKind.INCREMENT, "abc"))
        assert [entry.kind for entry in ledger.snapshots.entries()] == ["instant"]
        assert ledger.snapshots.entries(NEXT_MONTH) == []

    def test_have_those_that_are_stored(self, ledger: Ledger) -> None:
        ledger.snapshots.append([snapshot({0: 10}), snapshot({0: 20}, at_ms=T0 + MONTH_MS)])
        assert [entry.number for entry in ledger.snapshots.entries(NEXT_MONTH)] == [2]


def test_an_entry_is_plain_text_wherever_it_was_read(ledger: Ledger) -> None:
    """``forget-snapshots -o yaml`` prints what it forgets."""
    (stored,) = ledger.snapshots.append([snapshot({0: 10})])
    leave_marker(ledger, Entry(T0 + HOUR_MS, 1, "instant"))
    (read,) = ledger.snapshots.entries()
    assert {type(each.kind) for each in (read, Entry.of(stored))} == {str}
    assert yaml.safe_load(yaml.safe_dump(read.kind)) == "instant"
    assert offsets_of(ledger.snapshots.read(read.number))
