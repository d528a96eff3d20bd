"""Audits of tables and counts of records in the ledger's log: which are recorded, and what the state keeps of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import LedgerConflictError
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.entries import Audited, RecordsCounted
from airflow_kafka_offsets.ledger.log import checkpoint_of, state_of
from airflow_kafka_offsets.offsets.answers.records import LogContent
from airflow_kafka_offsets.offsets.audits.census import Census
from tests.unit.ledger.memory import MemoryFiles
from tests.unit.ledger.states import NAME, NOW, after, pinned
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import manifest_of

STATE = pinned(Contents(MemoryFiles(), "memory"), 0, 10, 20)
MANIFEST = STATE.windows[NAME].manifest
FIRST = Audited(NAME, "lake.t", "0" * 8, "hash", {"missing": 3}, 7, {"task_id": "audit"}, NOW, 10)


def recorded(*wishes: Audited) -> list[tuple[str, str]]:
    """Table and run of the audits that the state has after these."""
    state = STATE
    for wish in wishes:
        state = after(state, load_decisions.audit(state, wish, MANIFEST))
    assert state_of(checkpoint_of(state)) == state
    return [(each.table, each.run) for each in state.windows[NAME].audits]


class TestAudits:
    def test_the_last_one_of_each_table_counts(self) -> None:
        second = FIRST._replace(run="1" * 8, audited_ms=NOW + 1)
        other = FIRST._replace(table="a", run="2" * 8)
        assert recorded(FIRST, other, second) == [("a", "2" * 8), ("lake.t", "1" * 8)]

    def test_one_is_recorded_once_and_an_older_one_takes_no_place(self) -> None:
        older = FIRST._replace(run="1" * 8, audited_ms=NOW - 1)
        assert recorded(FIRST, FIRST, older) == [("lake.t", "0" * 8)]

    def test_one_of_other_offsets_is_refused(self) -> None:
        with pytest.raises(LedgerConflictError, match="resolved anew"):
            load_decisions.audit(STATE, FIRST, "another manifest")


class TestCounts:
    def test_records_are_counted_once(self) -> None:
        wish = RecordsCounted(NAME, "hash", 9)
        state = after(STATE, load_decisions.count(STATE, wish, MANIFEST))
        assert state.windows[NAME].census == "hash"
        assert load_decisions.count(state, RecordsCounted(NAME, "other", 8), MANIFEST) == ()
        assert state_of(checkpoint_of(state)) == state
        with pytest.raises(LedgerConflictError, match="resolved anew"):
            load_decisions.count(STATE, wish, "another manifest")

    def test_the_file_is_there_before_the_entry_that_names_it(self, tmp_path: Path) -> None:
        ledger = ledgers.ledger_in(tmp_path / "flights")
        window = ledgers.pin(ledger, manifest_of([("t", 0, 0, 10)]))
        census = Census.of([LogContent("t", 0, 0, 10, 3, runs=((0, 2), (5, 6)))])
        wish = RecordsCounted(window.name, ledger.contents.add_census(window.name, census), census.records)
        ledger.change(lambda state: load_decisions.count(state, wish, window.manifest))
        again = ledgers.ledger_in(tmp_path / "flights")
        assert again.contents.census(again.window(window.name)) == census
