"""Whatever the order of the operations of two or three writers, and wherever one of them dies, the three rules hold: a
range never changes, windows never cross, and whoever gets a number has decided in knowledge of all before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

import pytest

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.ledger import corrections, decisions, load_decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Attempted, Output, Published
from airflow_kafka_offsets.ledger.files import Files
from airflow_kafka_offsets.ledger.log import Log
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from tests.unit.ledger.interleavings import Ended, Search, Writer
from tests.unit.ledger.memory import CREATED, MemoryFiles
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

CONTENTS = Contents(MemoryFiles(), "memory")
"""Files by hash are the same whoever writes them when: their operations needn't be interleaved."""
AT = [T0 + hour * HOUR_MS for hour in range(5)]
NOW = T0 + 24 * HOUR_MS


def asked(*instants: int, known: int = 0, shift: int = 0) -> ResolvedOffsets:
    """What Kafka said of some instants; later answers may differ, as late records arrive."""
    found = {at_ms: snapshot({0: (at_ms - T0) // 1000 + shift}, at_ms=at_ms) for at_ms in instants}
    return ResolvedOffsets(known, NOW, {at_ms: CONTENTS.add_snapshot(each) for at_ms, each in found.items()})


def resolver(*windows: tuple[int, int], shift: int = 0) -> Writer:
    def write(files: Files) -> object:
        log, name = Log(files, "memory"), window_id(*windows[-1])
        for start_ms, end_ms in windows:
            found = asked(start_ms, end_ms, shift=shift)
            state, _ = log.change(
                partial(decisions.pin, windows=[(start_ms, end_ms)], answers=found, contents=CONTENTS)
            )
        return state.windows[name].manifest

    return write


def incrementer(*runs: str, end: int = 100) -> Writer:
    def write(files: Files) -> object:
        log, found = Log(files, "memory"), []
        for place, run in enumerate(runs):
            latest = snapshot({0: end + place * 10}, at_ms=NOW + place, kind=AsOfKind.LATEST)
            wish = ResolvedOffsets(
                0, NOW, latest=latest, origin=snapshot({0: 0}, at_ms=NOW - 1, kind=AsOfKind.EARLIEST)
            )
            state, _ = log.change(partial(decisions.pin_increment, by=run, answers=wish, contents=CONTENTS))
            window = state.increment(run)
            assert window is not None
            found.append(window.name)
        return tuple(found)

    return write


def loader(name: str, who: str, *, apart: bool) -> Writer:
    """Begins an attempt and publishes it, as a task does whose driver has proved it."""

    def write(files: Files) -> object:
        log = Log(files, "memory")
        manifest = log.read().window(name).manifest
        state, attempt = log.change(lambda state: load_decisions.begin(state, Attempted(name, {"who": who}), manifest))
        if not attempt:
            return ("stands", state.windows[name].loaded)
        outputs = (Output("", "parquet", f"s3://lake/{who}", 7),)
        wish = Published(name, attempt, "0" * 8, f"{who}{attempt}", outputs, apart, NOW)
        state, _ = log.change(lambda state: load_decisions.publish(state, wish, manifest))
        return ("counts", state.windows[name].loaded)

    return write


def commander(decide: Callable[[State], decisions.Entries]) -> Writer:
    return lambda files: Log(files, "memory").change(decide)[1]


def begun(*writers: Writer) -> dict[str, bytes]:
    files = MemoryFiles()
    Log(files, "memory").change(lambda state: [CREATED])
    for write in writers:
        write(files)
    return files.files


class Rules:
    """Checks the state after each operation, and that what was so once stays so."""

    def __init__(self) -> None:
        self._checked: set[frozenset[tuple[str, bytes]]] = set()

    def __call__(self, files: dict[str, bytes], ended: Mapping[str, Ended]) -> None:
        for found in ended.values():
            assert found.error is None or isinstance(found.error, KafkaOffsetsError), found.error
        seen = frozenset(files.items())
        if seen in self._checked:
            return
        self._checked.add(seen)
        state = Log(MemoryFiles(dict(files)), "memory").read()
        assert state.number == sum(name.startswith("log/") for name in files)
        windows = list(state.windows.values())
        assert all(earlier.end_ms <= later.start_ms for earlier, later in pairwise(windows))
        offsets = [CONTENTS.snapshot(each.offsets).boundaries for each in state.snapshots.values()]
        assert all(
            boundary.offset <= later[key].offset
            for earlier, later in pairwise(offsets)
            for key, boundary in earlier.items()
        )
        for window in windows:
            manifest = CONTENTS.manifest(window)
            (pinned,) = manifest.ranges
            ends = (CONTENTS.snapshot(state.snapshots[at].offsets) for at in (window.start_ms, window.end_ms))
            assert [pinned.start_offset, pinned.end_offset] == [
                boundary.offset for end in ends for boundary in end.boundaries.values()
            ]


Check = Callable[[dict[str, bytes], Mapping[str, Ended]], None]


def search(files: dict[str, bytes], also: Check | None = None, *, lags: bool = False, **writers: Writer) -> Search:
    """All interleavings of some writers keep the rules.

    :param also: checks more, after each operation.
    """
    rules = Rules()

    def check(files: dict[str, bytes], ended: Mapping[str, Ended]) -> None:
        rules(files, ended)
        if also is not None:
            also(files, ended)

    found = Search(writers, check, lags)
    found.run(files)
    assert found.ends
    return found


def same_result(files: dict[str, bytes], ended: Mapping[str, Ended]) -> None:
    assert len({found.result for found in ended.values()}) <= 1


class TestWindows:
    def test_two_tasks_that_resolve_two_hours_each_share_their_instants(self) -> None:
        one = resolver((AT[0], AT[1]), (AT[1], AT[2]))
        other = resolver((AT[2], AT[3]), (AT[1], AT[2]), shift=5)
        search(begun(), one=one, other=other)

    def test_a_listing_that_lags_behind_changes_nothing(self) -> None:
        one, other = resolver((AT[0], AT[1])), resolver((AT[1], AT[2]), shift=5)
        search(begun(resolver((AT[2], AT[3]))), lags=True, one=one, other=other, runs=incrementer("a"))

    def test_of_two_that_cross_one_is_refused(self) -> None:
        def one_is_refused(files: dict[str, bytes], ended: Mapping[str, Ended]) -> None:
            done = sorted(found.error is None for found in ended.values())
            assert len(ended) < 2 or done == [False, True]

        search(begun(), one_is_refused, one=resolver((AT[0], AT[2])), other=resolver((AT[1], AT[3])))

    def test_a_retry_beside_the_task_that_it_follows_returns_the_same_manifest(self) -> None:
        search(begun(), same_result, task=resolver((AT[0], AT[1])), retry=resolver((AT[0], AT[1]), shift=9))

    def test_three_tasks_at_neighbouring_hours(self) -> None:
        tasks = {f"task{n}": resolver((AT[n], AT[n + 1]), shift=n) for n in range(3)}
        assert search(begun(), **tasks).seen > 500

    def test_a_void_beside_a_load_and_a_task_that_pins_another_window_in_its_place(self) -> None:
        name = window_id(AT[0], AT[1])
        files = begun(resolver((AT[0], AT[1])))
        search(
            files,
            load=loader(name, "load", apart=True),
            void=commander(lambda state: corrections.void(state, [name])),
            other=resolver((AT[0], AT[2]), shift=3),
        )

    def test_a_rewind_beside_two_tasks(self) -> None:
        files = begun(resolver((AT[0], AT[1]), (AT[1], AT[2])))
        rewind = commander(lambda state: corrections.rewind(state, AT[1]))
        search(files, rewind=rewind, one=resolver((AT[2], AT[3]), shift=2), other=resolver((AT[1], AT[2]), shift=4))


class TestIncrements:
    def test_two_tasks_with_two_runs_each_get_four_in_a_row(self) -> None:
        def in_a_row(files: dict[str, bytes], ended: Mapping[str, Ended]) -> None:
            if len(ended) == 2:
                windows = list(Log(MemoryFiles(files), "memory").read().windows.values())
                assert len(windows) == 4
                assert all(earlier.end_ms == later.start_ms for earlier, later in pairwise(windows))

        search(begun(), in_a_row, one=incrementer("a", "b"), other=incrementer("c", "d", end=105))

    def test_a_run_and_its_retry_get_one(self) -> None:
        def one_window(files: dict[str, bytes], ended: Mapping[str, Ended]) -> None:
            same_result(files, ended)
            assert len(Log(MemoryFiles(files), "memory").read().windows) <= 1

        search(begun(), one_window, task=incrementer("a"), retry=incrementer("a", end=120))


class TestLoads:
    @pytest.mark.parametrize("apart", [True, False])
    @pytest.mark.parametrize(
        "attempts", [2, pytest.param(3, marks=pytest.mark.nightly("minutes of interleavings; two show the same"))]
    )
    def test_of_attempts_side_by_side_one_counts_and_all_say_which(self, apart: bool, attempts: int) -> None:
        name = window_id(AT[0], AT[1])

        def all_say_which(files: dict[str, bytes], ended: Mapping[str, Ended]) -> None:
            counts = Log(MemoryFiles(files), "memory").read().windows[name].loaded
            for found in ended.values():
                assert found.error is not None or found.result[1] == counts
            assert len(ended) < attempts or any(found.error is None for found in ended.values())

        tasks = {f"task{n}": loader(name, f"task{n}", apart=apart) for n in range(attempts)}
        search(begun(resolver((AT[0], AT[1]))), all_say_which, **tasks)

    def test_a_reload_beside_a_load_is_loaded_again(self) -> None:
        name = window_id(AT[0], AT[1])
        files = begun(resolver((AT[0], AT[1])), loader(name, "first", apart=True))
        search(
            files,
            reload=commander(lambda state: load_decisions.reload(state, [name])),
            one=loader(name, "one", apart=True),
            other=loader(name, "other", apart=False),
        )
