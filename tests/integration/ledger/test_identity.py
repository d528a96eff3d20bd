"""A ledger's identity: made once, carried by what is pinned in it, and moved with its folder alone."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.hooks.ledger import existing_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from tests.integration.ledger.loads import new_ledger, resolve


class TestIdentity:
    def test_tasks_that_create_a_ledger_at_the_same_time_agree_on_one(self, root: str) -> None:
        with ThreadPoolExecutor(8) as pool:
            found = set(pool.map(lambda _: new_ledger(root).id, range(8)))
        assert found == {new_ledger(root).id}

    def test_one_that_is_missing_names_those_beside_it(self, tmp_path: Path) -> None:
        new_ledger(tmp_path.as_uri())
        (tmp_path / "a file").touch()
        with pytest.raises(ConfigurationError, match=r"no ledger at .*/laods: .* Pipelines there: loads\.$"):
            existing_ledger(tmp_path.as_uri(), "laods")

    def test_every_manifest_carries_it(self, root: str) -> None:
        ledger = new_ledger(root)
        assert ledger.pinned(resolve(ledger, 0)).manifest.ledger_id == ledger.id

    def test_a_second_ledger_of_the_same_name_is_another_one(self, tmp_path: Path) -> None:
        one, other = (new_ledger((tmp_path / each).as_uri()) for each in ("one", "other"))
        assert one.id != other.id
        assert resolve(one, 0).manifest != resolve(other, 0).manifest

    def test_a_ledger_that_was_moved_is_the_same_one(self, tmp_path: Path) -> None:
        ledger = new_ledger((tmp_path / "here").as_uri())
        window = resolve(ledger, 0)
        shutil.move(tmp_path / "here", tmp_path / "there")
        moved = new_ledger((tmp_path / "there").as_uri())
        assert moved.id == ledger.id
        assert moved.pinned(moved.window(window.name)).sha256 == window.manifest

    def test_a_window_that_was_copied_from_another_ledger_is_refused(self, tmp_path: Path) -> None:
        """The hash is right, and the ledger another one."""
        one, other = (new_ledger((tmp_path / each).as_uri()) for each in ("one", "other"))
        window = resolve(one, 0)
        shutil.copytree(tmp_path / "one" / "loads" / "windows", tmp_path / "other" / "loads" / "windows")
        with pytest.raises(LedgerConflictError, match=r"was pinned in ledger .* only as a whole folder"):
            other.pinned(window)

    def test_none_is_created_beside_the_windows_of_one_that_has_lost_its_log(self, tmp_path: Path) -> None:
        """Its attempts would have the numbers of those before, and so their results and failures."""
        resolve(new_ledger((tmp_path / "one").as_uri()), 0)
        shutil.rmtree(tmp_path / "one" / "loads" / "log")
        with pytest.raises(LedgerConflictError, match="has files of 1 window, but no log"):
            new_ledger((tmp_path / "one").as_uri())
        shutil.move(tmp_path / "one" / "loads", tmp_path / "away")
        assert new_ledger((tmp_path / "one").as_uri()).state.windows == {}

    def test_a_ledger_that_has_lost_its_first_commit_says_so(self, tmp_path: Path) -> None:
        ledger = new_ledger((tmp_path / "one").as_uri())
        (tmp_path / "one" / "loads" / "log" / "00000" / "00000001.json").unlink()
        with pytest.raises(LedgerCorruptError, match="doesn't begin with its identity"):
            _ = Ledger(ObjectStoragePath((tmp_path / "one").as_uri()), "loads").id
        assert ledger.uri
