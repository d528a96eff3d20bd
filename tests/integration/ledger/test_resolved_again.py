"""Windows that are resolved again with their neighbours: no two have the same offsets, whatever comes between."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations, count, pairwise
from pathlib import Path

import pytest
from upath import UPath

from airflow_kafka_offsets.errors import DataLossError, WindowOverlapError
from airflow_kafka_offsets.ledger import pinning, storage
from airflow_kafka_offsets.ledger.forgetting import forget_instants, forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import Pinning, pin_together, pin_window
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.tiling import shared
from tests.integration.airflow.windows.counted import left_of
from tests.integration.airflow.windows.test_every_moment import before_look
from tests.integration.ledger.loads import new_ledger, publish, windows_of
from tests.integration.ledger.test_overlap import at, look_first
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

pytestmark = pytest.mark.nightly("of windows resolved again; airflow/test_cli_connections.py resolves one")

LATER = T0 + 24 * HOUR_MS


@pytest.fixture
def local(tmp_path: Path) -> Ledger:
    return new_ledger(tmp_path / "ledger")


class TestResolvedAgain:
    """Windows that meet at an instant which was resolved again, and which one of them has as it was."""

    @pytest.fixture
    def three(self, local: Ledger) -> list[str]:
        """Windows of an hour each."""
        return [pin_window(local, *at(local, 60 * each, 60 * each + 60)).manifest.window for each in range(3)]

    def resolve_again(self, ledger: Ledger, windows: list[str], *offsets: int) -> list[OffsetSnapshot]:
        forget_instants(ledger, windows)
        return ledger.snapshots.append(hourly(offsets), revising=windows)

    def test_one_alone_is_refused_until_the_other_has_it_too(self, local: Ledger, three: list[str]) -> None:
        start, middle, end, _ = self.resolve_again(local, three, 1000, 1070, 1120, 1180)
        command = f"kafka-offsets ledger re-resolve loads {three[0]} {three[1]}"
        with pytest.raises(WindowOverlapError, match=f"t-0: 10 offsets from 1060.*{command}") as refused:
            pin_window(local, start, middle)
        assert not refused.value.retriable
        assert pin_window(local, middle, end).manifest.revision == 2
        assert pin_window(local, start, middle).manifest.revision == 2

    def test_an_empty_one_between_them_hides_nothing(self, local: Ledger, three: list[str]) -> None:
        start, middle, end, last = self.resolve_again(local, three, 1000, 1130, 1130, 1180)
        pin_window(local, middle, end)
        with pytest.raises(WindowOverlapError, match=f"10 of its offsets are in window {three[2]}"):
            pin_window(local, start, middle)
        pin_window(local, end, last)
        pin_window(local, start, middle)
        assert all(each.holds for each in verify(local))

    def test_however_many_empty_ones_there_are_between_them(self, local: Ledger) -> None:
        windows = self.pinned(local, 0, *[10] * 20, 12)
        again = self.resolve_again(local, windows, 0, *[12] * 21)
        with pytest.raises(WindowOverlapError, match=f"2 of its offsets are in window {windows[-1]}"):
            pin_window(local, *again[:2])

    def test_one_of_which_some_partition_is_empty_hides_nothing_there(self, local: Ledger) -> None:
        """Partition 1 as above, beside a busy one."""
        old, new = ([0, 10, 20, 30], [0, 10, 10, 12]), ([0, 10, 20, 30], [0, 12, 12, 12])
        windows = [pin_window(local, *each).manifest.window for each in pairwise(local.snapshots.append(hourly(*old)))]
        forget_instants(local, windows)
        again = local.snapshots.append(hourly(*new), revising=windows)
        with pytest.raises(WindowOverlapError, match=f"2 of its offsets are in window {windows[-1]}"):
            pin_window(local, *again[:2])

    def test_one_out_of_order_is_refused_too_or_it_would_hide_what_is_behind_it(self, local: Ledger) -> None:
        """Each of the three had records of the one before it, since they came late."""
        first, second, third = self.pinned(local, 0, 10, 10, 12)
        again = self.resolve_again(local, [first, second, third], 0, 12, 14, 14)
        command = f"kafka-offsets ledger re-resolve loads {second} {third}"
        with pytest.raises(WindowOverlapError, match=f"of window {third}, .* order of the two .*{command}"):
            pin_window(local, *again[1:3])
        with pytest.raises(WindowOverlapError, match=f"2 of its offsets are in window {third}"):
            pin_window(local, *again[:2])
        for each in (again[2:], again[1:3], again[:2]):
            pin_window(local, *each)
        assert all(each.holds for each in verify(local))

    def test_one_that_is_being_pinned_hides_nothing(self, local: Ledger) -> None:
        """It may be taken back."""
        windows = self.pinned(local, 0, 10, 10, 12)
        again = self.resolve_again(local, windows, 0, 12, 14, 14)
        Pinning(local, "allow").pin(*again[1:3])
        with pytest.raises(WindowOverlapError, match=f"2 of its offsets are in window {windows[-1]}"):
            pin_window(local, *again[:2])

    def test_one_that_is_taken_back_itself_hides_nothing_either(self, local: Ledger) -> None:
        """Of two that are pinned by one command, the first one could only have been hidden by the second."""
        old = local.snapshots.append(hourly([0, 10, 10, 12]))
        first, second = (pin_window(local, *pair).manifest.window for pair in pairwise(old[:3]))
        command = Pinning(local, "fail")
        look_first(command, local)
        third = pin_window(local, *old[2:]).manifest.window
        again = self.resolve_again(local, [first, second, third], 0, 12, 14, 14)
        for pair in pairwise(again[:3]):
            command.pin(*pair)
        assert command.settle().keys() == {first, second}
        assert [each.revision for each in windows_of(local)] == [1, 1, 1]

    def test_many_that_are_pinned_by_one_command_are_each_compared_with_the_nearest(
        self, local: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After all of them were forgotten: or each would be compared with each."""
        windows = self.pinned(local, *range(24))
        forget_windows(local, windows, "test")
        read, pinned = [], WindowFolder.pinned
        monkeypatch.setattr(WindowFolder, "pinned", lambda folder: read.append(folder.id) or pinned(folder))
        command = Pinning(local, "fail")
        for pair in pairwise(local.snapshots.append(hourly(range(24)))):
            command.pin(*pair)
        assert command.settle() == {}
        assert len(read) < 8 * len(windows)

    def test_one_that_ends_before_it_begins_may_have_its_offsets_too(self, local: Ledger) -> None:
        """The task that resolved the later one again has died; nobody has resolved the time between the two."""
        late = pin_window(local, *local.snapshots.append(hourly([0, 5, 5, 10, 12])[3:])).manifest.window
        forget_instants(local, [late])
        local.snapshots.append(hourly([0, 5, 5, 12, 12])[3:], revising=[late])
        with pytest.raises(WindowOverlapError, match=f"2 of its .*re-resolve loads {late}\\."):
            pin_window(local, *local.snapshots.append(hourly([5, 12])))

    def test_idle_ones_that_had_ended_below_it_before_hide_nothing(self, local: Ledger) -> None:
        """All records came late, after each window was published; the one across them begins among these records."""
        windows = self.pinned(local, 0, *[10] * 20)
        for each in windows:
            publish(local, local.pinned(each))
        pin_again(local, self.resolve_again(local, windows, 0, *[20] * 20))
        start, end = snapshot({0: 12}, at_ms=T0 + HOUR_MS // 2, resolved_at_ms=LATER), hourly([20] * 21)[-1]
        with pytest.raises(WindowOverlapError, match=f"8 of its offsets are in window {windows[0]}"):
            pin_window(local, *local.snapshots.append([start, end]))

    def pinned(self, ledger: Ledger, *offsets: int) -> list[str]:
        """Windows of an hour each."""
        stored = ledger.snapshots.append(hourly(offsets))
        return [pin_window(ledger, *pair).manifest.window for pair in pairwise(stored)]

    def test_what_one_had_before_counts_until_what_it_gets_is_settled(self, local: Ledger, three: list[str]) -> None:
        """The task that resolved it again has died, or is about to settle it: so a retry may succeed."""
        start, middle, end, _ = self.resolve_again(local, three, 1000, 1070, 1120, 1180)
        assert Pinning(local, "fail").pin(middle, end).manifest.revision == 2
        with pytest.raises(WindowOverlapError, match="10 of its offsets") as refused:
            Pinning(local, "fail").pin(start, middle)
        assert refused.value.retriable
        pin_window(local, middle, end)
        pin_window(local, start, middle)
        assert [each.revision for each in windows_of(local)] == [2, 2, 1]

    def test_so_it_does_for_one_that_overlaps_it_in_time(self, local: Ledger) -> None:
        only = pin_window(local, *at(local, 60, 120)).manifest.window
        forget_instants(local, [only])
        fresh = [snapshot({0: 1040 + minute}, at_ms=T0 + minute * 60_000, resolved_at_ms=LATER) for minute in (60, 120)]
        assert Pinning(local, "fail").pin(*local.snapshots.append(fresh, revising=[only])).manifest.revision == 2
        with pytest.raises(WindowOverlapError, match="40 of its offsets") as refused:
            Pinning(local, "fail").pin(*at(local, 30, 90))
        assert refused.value.retriable

    def test_so_it_does_behind_one_between_other_instants(self, local: Ledger) -> None:
        """The task that resolved it again has died; the one between them starts where nothing was forgotten."""
        only = pin_window(local, *at(local, 60, 120)).manifest.window
        forget_instants(local, [only])
        fresh = [
            snapshot({0: offset}, at_ms=T0 + minute * 60_000, resolved_at_ms=LATER)
            for minute, offset in ((40, 1040), (50, 1075), (60, 1075))
        ]
        start, middle, end = local.snapshots.append(fresh, revising=[only])
        assert pin_window(local, middle, end).manifest.span == 0
        with pytest.raises(WindowOverlapError, match="15 of its offsets") as refused:
            pin_window(local, start, middle)
        assert not refused.value.retriable

    def test_the_command_names_none_that_the_ledger_lacks(self, local: Ledger) -> None:
        """Or it would refuse them all. The task that resolved the later one again has died before it was pinned."""
        later = pin_window(local, *at(local, 60, 120)).manifest.window
        forget_instants(local, [later])
        local.snapshots.append([snapshot({0: 1070}, at_ms=T0 + HOUR_MS, resolved_at_ms=LATER)], revising=[later])
        with pytest.raises(WindowOverlapError, match=f"again: kafka-offsets ledger re-resolve loads {later}\\."):
            pin_window(local, *at(local, 0, 60))

    @pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
    @pytest.mark.parametrize(
        "happens",
        [
            lambda ledger, stored: pin_window(ledger, *stored[:2]),
            lambda ledger, stored: pin_again(ledger, stored[1:]),
            lambda ledger, stored: pin_again(ledger, stored[::-1]),
            lambda ledger, _: pin_window(ledger, *at(ledger, 45, 75)),
        ],
        ids=["the first", "two of them", "all backwards", "one across them"],
    )
    def test_whatever_somebody_pins_meanwhile_no_two_that_count_share_offsets(
        self,
        local: Ledger,
        three: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        happens: Callable[[Ledger, list[OffsetSnapshot]], object],
        dies: bool,
    ) -> None:
        """Before each look at the store of the one who resolves three again, in turn; who then goes on, or has died."""
        monkeypatch.setattr(pinning, "_WAITS_S", (0.0,) * 5)
        stored = self.resolve_again(local, three, 1000, 1050, 1130, 1180)
        for moment in count():
            copy = shutil.copytree(tmp_path / "ledger", tmp_path / f"{moment}")
            ledger = Ledger(UPath(copy), local.pipeline)
            with pytest.MonkeyPatch.context() as patch:
                meanwhile = partial(_try, happens, ledger, stored, patch if dies else None)
                with suppress(WindowOverlapError, OSError), before_look(moment, meanwhile) as happened:
                    pin_again(ledger, stored)
            settled = [found for window in three if (found := ledger.settled(window)) is not None]
            assert len(settled) == 3
            for one, other in combinations(settled, 2):
                assert not shared(one.manifest.ranges, other.manifest.ranges), moment
            with suppress(WindowOverlapError):  # one across them may stay
                pin_again(ledger, stored)
                settled = [found for window in three if (found := ledger.settled(window)) is not None]
                assert [each.manifest.ranges[0].end_offset for each in settled] == [1050, 1130, 1180], moment
            assert [claim.found for claim in verify(ledger) if not claim.holds] == [], moment
            if not happened:
                break
        assert moment > 20

    @pytest.mark.parametrize("first", ["the load", "who resolves it again"])
    def test_nor_do_they_when_a_load_pins_what_is_left_of_one_meanwhile(
        self, local: Ledger, three: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
    ) -> None:
        """Before each look of one of the two, in turn, the other one comes to its end. What is left of the revision
        that the load knows has offsets that two others get."""
        monkeypatch.setattr(pinning, "_WAITS_S", (0.0,) * 5)
        stored = self.resolve_again(local, three, 1000, 1070, 1110, 1180)
        seen = set()
        for moment in count():
            copy = shutil.copytree(tmp_path / "ledger", tmp_path / f"{moment}")
            ledger = Ledger(UPath(copy), local.pipeline)
            both = partial(left_of_second, ledger), partial(pin_again, ledger, stored)
            one, other = both if first == "the load" else both[::-1]
            with before_look(moment, other) as happened, suppress(WindowOverlapError):
                one()
            settled = [found for window in three if (found := ledger.settled(window)) is not None]
            seen.add(settled[1].manifest.revision)
            assert not any(shared(a.manifest.ranges, b.manifest.ranges) for a, b in combinations(settled, 2)), moment
            assert [claim.found for claim in verify(ledger) if not claim.holds] == [], moment
            if not happened:
                break
        assert moment > 10
        assert len(seen) > 1

    def test_all_together_count_afterwards_or_none_does(self, local: Ledger, three: list[str]) -> None:
        """Another task's window has offsets of the last one."""
        stored = self.resolve_again(local, three[:2], 1000, 1070, 1120)
        crossing = at(local, 90, 100)

        def pin(pinning: Pinning) -> None:
            for each in pairwise(stored):
                pinning.pin(*each)
            pin_window(local, *crossing, on_overlap="allow")

        def refuse(_: Pinning) -> None:
            raise DataLossError("records are gone")

        with pytest.raises(WindowOverlapError, match="10 of its offsets"):
            pin_together(local, "fail", three[:2], pin)
        assert [each.revision for each in windows_of(local) if each.id in three] == [1, 1, 1]
        Pinning(local, "allow").pin(*stored[:2])  # its task has died
        with pytest.raises(DataLossError):
            pin_together(local, "fail", three[:2], refuse)
        assert [each.revision for each in windows_of(local) if each.id in three] == [1, 1, 1]
        pin_together(local, "allow", three[:2], pin)
        assert [each.revision for each in windows_of(local) if each.id in three] == [4, 3, 1]
        assert all(each.is_settled for each in windows_of(local))


def hourly(*offsets: Sequence[int]) -> list[OffsetSnapshot]:
    """Snapshots from T0 on, of each partition's offsets."""
    return [
        snapshot(dict(enumerate(each)), at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER)
        for hour, each in enumerate(zip(*offsets, strict=True))
    ]


def left_of_second(ledger: Ledger) -> None:
    """Pin what retention left of the second window."""
    second = ledger.settled(windows_of(ledger)[1].id)
    assert second is not None
    left_of(ledger, second)


def pin_again(ledger: Ledger, stored: list[OffsetSnapshot]) -> None:
    """Pin the windows between the snapshots, which have been resolved again, together."""
    pairs = [(min(pair, key=_time), max(pair, key=_time)) for pair in pairwise(stored)]
    windows = [window_id(start.timestamp_ms, end.timestamp_ms) for start, end in pairs]
    pin_together(ledger, "fail", windows, lambda together: [together.pin(*pair) for pair in pairs])


def _time(stored: OffsetSnapshot) -> int:
    return stored.timestamp_ms


def _try(
    happens: Callable[[Ledger, list[OffsetSnapshot]], object],
    ledger: Ledger,
    stored: list[OffsetSnapshot],
    dies: pytest.MonkeyPatch | None,
) -> None:
    with suppress(WindowOverlapError):
        happens(ledger, stored)
    if dies is not None:
        dies.setattr(storage, "_create", _fail)


def _fail(*_: object) -> None:
    raise OSError("whoever writes is dead")
