"""What restarts have taken: derived, whatever happens to windows later."""

from __future__ import annotations

from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.taken import ended_windows, taken
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot
from tests.integration.ledger.loads import increment, pin, place, publish
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

RE_CREATED = Restarted(T0, ("t",), "re-created")
AHEAD = 1000
"""By how much logs end after a snapshot's offsets."""


def restart(ledger: Ledger, wish: Restarted = RE_CREATED) -> int:
    ledger.change(lambda state: corrections.restart(state, wish, ledger.contents))
    return ledger.state.restarts[-1][0]


def hour(number: int, *offsets: int, cluster_id: str = "cluster-1") -> OffsetSnapshot:
    return snapshot(dict(enumerate(offsets)), at_ms=T0 + number * HOUR_MS, cluster_id=cluster_id)


class TestTaken:
    def test_is_all_that_no_published_window_has_also_once_a_window_is_void(self, local: Ledger) -> None:
        publish(local, pin(local, hour(0, 0), hour(1, 10)))
        gone = pin(local, hour(1, 10), hour(2, 30))
        number = restart(local)
        assert ended_windows(local) == [gone]
        assert taken(local, number) == [LogRange("t", 0, 10, 30 + AHEAD)]
        local.change(lambda state: corrections.void(state, [gone.name]))
        assert taken(local, number) == [LogRange("t", 0, 10, 30 + AHEAD)]
        pin(local, hour(1, 10), hour(2, 30))
        assert ended_windows(local) == []
        publish(local, local.window(gone.name))
        assert taken(local, number) == [LogRange("t", 0, 10, 30 + AHEAD)], "that window has nothing of the old log"

    def test_is_known_without_a_window(self, local: Ledger) -> None:
        """The only one was voided."""
        latest = snapshot({0: 100}, at_ms=T0 + HOUR_MS, kind=AsOfKind.LATEST)
        window = increment(local, "r", latest, snapshot({0: 0}, kind=AsOfKind.EARLIEST))
        local.change(lambda state: corrections.void(state, [window.name]))
        assert taken(local, restart(local)) == [LogRange("t", 0, 0, 100 + AHEAD)]

    def test_is_also_of_partitions_that_were_added_after_the_last_window(self, local: Ledger) -> None:
        publish(local, pin(local, hour(0, 0), hour(1, 10)))
        place(local, hour(2, 13, 7))
        assert taken(local, restart(local)) == [LogRange("t", 0, 10, 13 + AHEAD), LogRange("t", 1, 0, 7 + AHEAD)]

    def test_of_a_log_that_was_truncated_is_what_was_above_that(self, local: Ledger) -> None:
        publish(local, pin(local, hour(0, 0, 0), hour(1, 10, 10)))
        place(local, hour(2, 30, 30))
        cut = Restarted(T0, ("t",), "truncated", truncated=(SeenOffset("t", 0, 20, 1),))
        first = restart(local, cut)
        assert taken(local, first) == [LogRange("t", 0, 20, 30 + AHEAD)]
        place(local, hour(3, 25, 40))
        assert taken(local, restart(local)) == [LogRange("t", 0, 10, 25 + AHEAD), LogRange("t", 1, 10, 40 + AHEAD)]
        assert taken(local, first) == [LogRange("t", 0, 20, 30 + AHEAD)]

    def test_of_a_log_that_goes_on_later_is_what_was_below_that(self, local: Ledger) -> None:
        publish(local, pin(local, hour(0, 0), hour(1, 10)))
        place(local, hour(2, 30))
        first = restart(local, Restarted(T0, ("t",), "moved", "cluster-2"))
        assert taken(local, first) == [LogRange("t", 0, 10, 30 + AHEAD)]
        place(local, hour(3, 5, cluster_id="cluster-2"))
        seen = corrections.ends_on(local.state, "cluster-1", local.contents)
        second = restart(local, Restarted(T0, ("t",), "moved", "cluster-1", resumed=seen))
        assert taken(local, first) == [], "the next window has it"
        assert taken(local, second) == [LogRange("t", 0, 0, 5 + AHEAD)]
