"""What one task hands to the next of a snapshot, on a local ledger: it names that snapshot and no other one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger import corrections, decisions
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.files import snapshot_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from airflow_kafka_offsets.references import SnapshotRef, last_published_end, offsets_in
from tests.integration.ledger.loads import AT_T0, load, new_ledger, resolve, restart
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot


def stored(ledger: Ledger, offset: int, at_ms: int = T0 + HOUR_MS) -> dict[str, Any]:
    """Store a snapshot; the XCom."""
    latest = snapshot({0: offset}, at_ms=at_ms, kind=AsOfKind.LATEST)
    ledger.change(lambda state: decisions.place(state, ResolvedOffsets(99, at_ms, latest=latest), ledger.contents))
    newest = ledger.state.newest_snapshot
    assert newest is not None
    return SnapshotRef.of(ledger, newest.offsets, newest.at_ms).to_json()


class TestASnapshot:
    def test_is_read_by_what_takes_it(self, local: Ledger) -> None:
        xcom = stored(local, 1000)
        assert [offset for _, offset in offsets_in(xcom, "target").items()] == [1000]

    def test_that_was_rewound_is_refused(self, local: Ledger) -> None:
        """``ledger rewind`` has taken back what a wrong clock had stored."""
        xcom = stored(local, 1000)
        local.change(lambda state: corrections.rewind(state, T0))
        with pytest.raises(LedgerConflictError, match=r"as of latest, .*no longer counts.*rewound") as failed:
            offsets_in(xcom, "target")
        assert "Clear the task that stored it, and this one" in str(failed.value)

    def test_of_a_ledger_that_was_made_anew_in_that_place_is_refused(self, local: Ledger, tmp_path: Path) -> None:
        """Otherwise its time would name another snapshot, and a wait would end early."""
        xcom = stored(local, 1000)
        shutil.rmtree(tmp_path / "loads")
        stored(new_ledger(tmp_path.as_uri()), 7)
        with pytest.raises(LedgerConflictError, match="or re-created"):
            offsets_in(xcom, "target")

    def test_whose_file_was_changed_is_refused(self, local: Ledger) -> None:
        xcom = stored(local, 1000)
        local.files.replace(snapshot_file(xcom["snapshot"]), b"x")
        with pytest.raises(LedgerCorruptError, match="Restore the file"):
            offsets_in(xcom, "target")

    @pytest.mark.parametrize("left_out", ["ledger", "snapshot", "at_ms", "as_of", "resolved_at"])
    def test_what_does_not_say_which_one_it_means_is_none(self, local: Ledger, left_out: str) -> None:
        xcom = stored(local, 1000)
        del xcom[left_out]
        with pytest.raises(ConfigurationError, match="target= takes what KafkaOffsetSnapshotOperator"):
            offsets_in(xcom, "target")

    def test_what_another_version_wrote_is_none(self, local: Ledger) -> None:
        with pytest.raises(ConfigurationError, match="target= takes what KafkaOffsetSnapshotOperator"):
            offsets_in(stored(local, 1000) | {"version": 2}, "target")


def test_what_is_wrong_with_a_window_is_said_of_the_argument_that_has_it() -> None:
    with pytest.raises(ConfigurationError, match=r"^until= takes what KafkaResolveWindowOperator"):
        offsets_in({"version": 1, "window": "20261121T060000000Z_20261121T070000000Z"}, "until")


class TestTheLastPublishedEnd:
    def test_is_where_that_window_ends_whatever_is_pinned_after_it(self, local: Ledger) -> None:
        load(local, 0)
        resolve(local, 1)
        assert [offset for _, offset in last_published_end(local).items()] == [AT_T0 + 10]

    def test_has_no_topics_that_have_begun_anew_since(self, local: Ledger) -> None:
        load(local, 0)
        restart(local)
        assert list(last_published_end(local).items()) == []
