"""The loop: whoever gets the next number has decided in knowledge of all that came before."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import (
    Attempted,
    Output,
    Pinned,
    Published,
    Reloaded,
    Restarted,
    Snapshotted,
    Verified,
)
from airflow_kafka_offsets.ledger.files import commit_file
from airflow_kafka_offsets.ledger.log import Log, checkpoint_of, state_of
from airflow_kafka_offsets.ledger.state import Commit, State, fold
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from tests.unit.ledger.memory import CREATED, MemoryFiles
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

HASH = "ab" * 32


def snapshotted(at_ms: int) -> Snapshotted:
    return Snapshotted(at_ms, HASH)


def _decide(at_ms: int, state: State) -> list[Snapshotted]:
    return [snapshotted(at_ms)]


def write(files: MemoryFiles, commits: int) -> Log:
    """A log with so many commits, of a snapshot each after the first."""
    log = Log(files, "memory")
    log.change(lambda state: [CREATED])
    for number in range(1, commits):
        log.change(partial(_decide, T0 + number))
    return log


def windows(number: int) -> Iterator[Commit]:
    """The commits of a pipeline that loads and verifies hourly windows."""
    yield Commit(1, (CREATED, snapshotted(T0)))
    for hour in range(number):
        name, commit = window_id(T0 + hour * HOUR_MS, T0 + (hour + 1) * HOUR_MS), 2 + hour * 4
        who = {"dag_id": "flights", "run_id": f"scheduled__{hour}", "task_id": "load", "map_index": -1, "try_number": 1}
        outputs = (Output("", "delta", "s3://lake/flights", 123_456),)
        yield Commit(commit, (snapshotted(T0 + (hour + 1) * HOUR_MS), Pinned(name, HASH, 123_456)))
        yield Commit(commit + 1, (Attempted(name, who),))
        yield Commit(commit + 2, (Published(name, commit + 1, "0" * 8, HASH, outputs, False, T0),))
        yield Commit(commit + 3, (Verified(name, commit + 1, {"verdict": "read = written = log", "gaps": 0}),))


class TestChange:
    def test_each_commit_takes_the_next_number_and_none_is_made_without_entries_or_by_an_error(self) -> None:
        files = MemoryFiles()
        assert Log(files, "memory").change(lambda state: []) == (State(), 0)
        with pytest.raises(KeyError):
            Log(files, "memory").change(lambda state: {}["no"])
        assert files.files == {}
        write(files, 3)
        assert sorted(files.files) == [commit_file(number) for number in (1, 2, 3)]

    def test_a_number_that_another_writer_took_is_read_and_the_decision_made_anew(self) -> None:
        files = MemoryFiles()
        write(files, 1)
        seen = []

        def decide(state: State) -> list[Snapshotted]:
            seen.append(state.number)
            if len(seen) == 1:
                Log(files, "memory").change(lambda state: [snapshotted(T0)])
            return [] if T0 in state.snapshots else [snapshotted(T0)]

        state, number = Log(files, "memory").change(decide)
        assert (seen, number, list(state.snapshots)) == ([1, 2], 0, [T0])

    def test_what_is_read_while_a_decision_is_made_does_not_become_what_it_was_made_on(self) -> None:
        """Another writer commits in between, and the one that decides reads the log for something else."""
        files = MemoryFiles()
        log = write(files, 1)

        def decide(state: State) -> list[Snapshotted]:
            if T0 in state.snapshots:
                return []
            Log(files, "memory").change(partial(_decide, T0))
            log.read()
            return [snapshotted(T0)]

        state, number = log.change(decide)
        assert (state.number, number, list(state.snapshots)) == (2, 0, [T0])

    def test_a_put_that_succeeded_and_was_reported_as_failed_is_recognised_as_ones_own(self) -> None:
        class Forgetful(MemoryFiles):
            def create(self, name: str, content: bytes) -> bool:
                super().create(name, content)
                return super().create(name, content)  # as a store's client does that sends it again

        state, number = write(Forgetful(), 2).change(lambda state: [])
        assert (state.number, number) == (2, 0)

    def test_a_log_that_was_restored_from_an_older_copy_and_went_on_is_read_as_it_is(self) -> None:
        files = MemoryFiles()
        log = write(files, 5)
        files.files = {name: content for name, content in files.files.items() if name < commit_file(4)}
        for at_ms in (T0 + 100, T0 + 200, T0 + 300):
            Log(files, "memory").change(partial(_decide, at_ms))
        assert log.read() == Log(files, "memory").read()

    def test_a_listing_that_lags_behind_is_found_out_by_the_number(self) -> None:
        class Stale(MemoryFiles):
            def names(self, folder: str) -> list[str]:
                return [name for name in super().names(folder) if name < "00000003"]

        files = MemoryFiles()
        write(files, 5)
        state, number = Log(Stale(files.files), "memory").change(lambda state: [snapshotted(T0 - 1)])
        assert (number, list(state.snapshots)) == (6, [T0 - 1, *(T0 + each for each in range(1, 5))])


class TestRequests:
    def test_a_reader_takes_two_listings_and_two_files_however_long_the_log_is(self) -> None:
        files = MemoryFiles()
        write(files, 180)
        files.operations.clear()
        assert Log(files, "memory").read().number == 180
        assert files.operations == {"names": 2, "read": 2}

    def test_one_who_knows_a_number_takes_one_listing_less(self) -> None:
        files = MemoryFiles()
        write(files, 20)
        files.operations.clear()
        Log(files, "memory", at_least=10).read()
        assert files.operations == {"names": 1, "read": 1}

    def test_a_full_folder_is_followed_by_the_next_one(self) -> None:
        files = MemoryFiles()
        write(files, 1_010)
        assert Log(files, "memory").read().number == 1_010
        assert Log(files, "memory", at_least=998).read().number == 1_010


class TestCheckpoints:
    """They are a cache: without them the log says the same."""

    @pytest.fixture(scope="class")
    @staticmethod
    def written() -> dict[str, bytes]:
        files = MemoryFiles()
        write(files, 180)
        return files.files

    @pytest.mark.parametrize(
        "harm",
        [
            pytest.param(lambda content: None, id="missing"),
            pytest.param(lambda content: content[: len(content) // 2], id="torn"),
            pytest.param(lambda content: b"", id="empty"),
            pytest.param(lambda content: gzip.compress(gzip.decompress(content).replace(b"ab", b"cd")), id="forged"),
        ],
    )
    def test_what_is_wrong_with_one_costs_time_alone(self, written: dict[str, bytes], harm) -> None:  # type: ignore[no-untyped-def]
        whole = Log(MemoryFiles(dict(written)), "memory").read()
        names = [name for name in written if name.startswith("checkpoints/")]
        assert len(names) == 3
        for some in (names[-1:], names):
            files = MemoryFiles(dict(written))
            for name in some:
                harmed = harm(written[name])
                files.files.pop(name) if harmed is None else files.replace(name, harmed)
            log = Log(files, "memory")
            assert log.read() == whole
            _, number = log.change(lambda state: [snapshotted(T0)])
            assert number == 181

    def test_a_commit_that_is_missing_is_named(self, written: dict[str, bytes]) -> None:
        files = MemoryFiles({name: content for name, content in written.items() if "checkpoints" not in name})
        del files.files[commit_file(100)]
        with pytest.raises(LedgerCorruptError, match=r"log/00000/00000100.json is missing, though later commits exist"):
            Log(files, "memory").read()

    def test_a_log_that_is_older_than_what_a_task_knows_is_told_from_a_damaged_one(self) -> None:
        """It was restored from an older copy, or made anew."""
        files = MemoryFiles()
        write(files, 5)
        for there in (files, MemoryFiles()):
            with pytest.raises(LedgerConflictError, match=r"has no commit 8.* Clear the task that resolves"):
                Log(there, "memory", at_least=8).read()

    def test_one_that_gets_shorter_while_a_process_has_it_open_is_found_out_when_it_reads(self) -> None:
        """Otherwise it would go on above a gap."""
        files = MemoryFiles()
        log = write(files, 5)
        del files.files[commit_file(5)]
        with pytest.raises(LedgerConflictError, match=r"has no commit 5.* restored from an older copy since"):
            log.read()

    @pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format":2}', b"\xff"])
    def test_a_commit_that_is_damaged_is_named(self, written: dict[str, bytes], content: bytes) -> None:
        files = MemoryFiles(written | {commit_file(180): content})
        with pytest.raises(LedgerCorruptError, match=r"00000180.json is damaged: it is not a commit"):
            Log(files, "memory").read()

    def test_one_says_all_that_a_state_has(self) -> None:
        commits = list(windows(3))
        name = window_id(T0, T0 + HOUR_MS)
        lost, resumed = (LogRange("t", 0, 5, 9),), snapshot({0: 5})
        commits.append(
            Commit(len(commits) + 1, (Reloaded(name), Restarted(T0, ("t",), "re-created", "other", (), resumed, lost)))
        )
        commits.append(Commit(len(commits) + 1, (Attempted(name, {"by": "hand"}, lost, T0),)))
        state = fold(State(), commits)
        assert state_of(checkpoint_of(state)) == state
        last = state.windows[name].attempts[-1]
        assert (last.lost, last.begun_ms) == (lost, T0)

    def test_one_of_a_year_is_small_and_read_in_a_moment(self) -> None:
        state = fold(State(), windows(8_760))
        content = checkpoint_of(state)
        started = time.process_time()
        again = state_of(content)
        assert time.process_time() - started < 1  # some 60 ms; a busy machine takes longer
        assert again == state
        assert len(content) < 1_000_000
        assert replace(again, windows={}) != again
