"""A topic over time: what snapshots saw, and what of it was loaded by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.page.app import make_app
from airflow_kafka_offsets.page.timeline import timeline
from tests.integration.ledger.loads import AT_T0, OFFSETS, begin, pin, place, publish_result, window
from tests.integration.ledger.results import result_of
from tests.integration.page.conftest import As, MakePipeline
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

Json = dict[str, Any]
MINUTE_MS = 60_000
Load = Callable[[int, int], None]
"""Load the window from one hour to another."""


class TestAnswer:
    def test_the_snapshots_and_windows_of_a_topic_are_there_in_order(self, log_in: As) -> None:
        answer = log_in("viewer").get("/api/pipelines/troubled/offsets", params={"topic": "t"}).json()
        instants = sorted(point["at_ms"] for point in answer["points"])
        assert instants == [T0 + hour * HOUR_MS for hour in range(9)]
        assert {int(point["offset"]) for point in answer["points"]} == {AT_T0 + hour * OFFSETS for hour in range(9)}
        for point in answer["points"]:
            assert int(point["log_start"]) <= int(point["offset"]) <= int(point["log_end"])
        assert [each["window"] for each in answer["windows"]] == [window(hour) for hour in (0, 1, 3, 4, 5, 6, 7)]
        assert [each["state"] for each in answer["windows"]][-4:] == ["verified", "published", "failed", "pinned"]
        first = answer["windows"][0]
        assert (first["start_offset"], first["end_offset"]) == (str(AT_T0), str(AT_T0 + OFFSETS))
        assert (first["start_ms"], first["end_ms"]) == (T0, T0 + HOUR_MS)

    def test_offsets_are_sums_or_those_of_one_partition(self, log_in: As, make_pipeline: MakePipeline) -> None:
        place(make_pipeline("wide"), snapshot({0: 100, 1: 7}, at_ms=T0))
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        both, one = (
            browser.get(f"/api/pipelines/wide/offsets?topic=t{more}").json()["points"] for more in ("", "&partition=1")
        )
        assert [point["offset"] for point in both] == ["107"]
        assert [point["offset"] for point in one] == ["7"]

    @pytest.mark.parametrize(
        "asked", [{"topic": "other"}, {"topic": "t", "partition": 9}, {"topic": "t", "most": 0}, {"partition": 0}]
    )
    def test_what_no_snapshot_has_is_refused(self, log_in: As, asked: dict[str, str | int]) -> None:
        answer = log_in("viewer").get("/api/pipelines/troubled/offsets", params=asked)
        assert answer.status_code in (400, 422)


def seen(hour: int, offsets: Mapping[int, int] | None = None) -> OffsetSnapshot:
    """An hour's instant, resolved a minute later, when the logs had grown by five. Each hour has ten offsets."""
    at = {partition: 100 * partition + 10 * hour for partition in (0, 1)} if offsets is None else offsets
    taken = snapshot(at, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=T0 + hour * HOUR_MS + MINUTE_MS)
    grown = {
        key: replace(each, log_start_offset=0, high_watermark=each.offset + 5, last_stable_offset=each.offset + 5)
        for key, each in taken.boundaries.items()
    }
    return replace(taken, boundaries=grown)


def with_added(taken: OffsetSnapshot, offset: int, log_start_offset: int = 0) -> OffsetSnapshot:
    """The same with another topic, of one partition."""
    facts = replace(taken.topics["t"], topic="added", topic_id="id-2", partition_count=1)
    any_one = next(iter(taken.boundaries.values()))
    ends = {"offset": offset, "high_watermark": offset + 5, "last_stable_offset": offset + 5}
    added = replace(any_one, topic="added", partition=0, **ends)  # type: ignore[arg-type]
    starts = {key: replace(each, log_start_offset=log_start_offset) for key, each in taken.boundaries.items()}
    boundaries = starts | {TopicPartition("added", 0): replace(added, log_start_offset=log_start_offset)}
    return replace(taken, topics={**taken.topics, "added": facts}, boundaries=boundaries)


@pytest.fixture
def ledger(make_pipeline: MakePipeline) -> Ledger:
    return make_pipeline("over-time")


@pytest.fixture
def load_window(ledger: Ledger) -> Load:
    """What is published is published ten minutes after the window's end."""
    return lambda start, end: load_between(ledger, seen(start), seen(end))


def load_between(ledger: Ledger, start: OffsetSnapshot, end: OffsetSnapshot) -> None:
    pinned = pin(ledger, start, end)
    result = result_of(ledger, pinned, begin(ledger, pinned))
    publish_result(ledger, pinned, result, at_ms=pinned.end_ms + 10 * MINUTE_MS)


def points_of(ledger: Ledger) -> list[Json]:
    points: list[Json] = timeline(ledger, "t", None, 100)["points"]
    return points


class TestWhatWasNotLoaded:
    """Two partitions, each of which gets ten offsets an hour; five more are there when an instant is resolved."""

    def test_is_counted_as_of_the_moment_when_the_logs_were_seen(self, ledger: Ledger, load_window: Load) -> None:
        for hour in range(3):
            load_window(hour, hour + 1)
        found = [(point["loaded"], point["unloaded"], point["behind_ms"]) for point in points_of(ledger)]
        behind_ms = HOUR_MS + MINUTE_MS
        assert found == [
            (None, None, None),  # nothing was published yet
            (None, None, None),
            ("120", "30", behind_ms),
            ("140", "30", behind_ms),
        ]

    def test_has_the_holes_and_failed_windows_in_it(self, ledger: Ledger, load_window: Load) -> None:
        load_window(0, 1)
        pin(ledger, seen(1), seen(2))
        load_window(3, 4)
        place(ledger, seen(5))
        assert [point["unloaded"] for point in points_of(ledger)][-1] == str(2 * (10 + 10 + 15))

    def test_has_all_of_a_partition_that_was_added(self, ledger: Ledger, load_window: Load) -> None:
        load_window(0, 1)
        place(ledger, seen(2, {0: 20, 1: 120, 2: 7}))
        assert points_of(ledger)[-1]["unloaded"] == str(15 + 15 + 12)

    def test_of_what_was_added_begins_with_its_log_whatever_retention_takes_later(
        self, ledger: Ledger, load_window: Load
    ) -> None:
        """Partition 2 of the topic, and another topic, are there from the second hour on, with seven records each."""
        load_window(0, 1)
        grown = with_added(seen(2, {0: 20, 1: 120, 2: 7}), 7)
        load_between(ledger, seen(1), grown)
        place(ledger, with_added(seen(3, {0: 30, 1: 130, 2: 9}), 9, log_start_offset=4))
        assert points_of(ledger)[-1]["unloaded"] == str(15 + 15 + (14 - 7))
        added = timeline(ledger, "added", None, 100)["points"]
        assert [point["unloaded"] for point in added] == [str(7 + 5), str(14 - 7)]


class TestALogThatHasBegunAnew:
    def test_is_shown_without_the_one_before(self, ledger: Ledger, load_window: Load) -> None:
        load_window(0, 2)
        wish = Restarted(T0 + 2 * HOUR_MS + 1, ("t",), "it was re-created")
        ledger.change(lambda state: corrections.restart(state, wish, ledger.contents))
        for hour in (3, 4):
            place(ledger, of_another(seen(hour, {0: 10 * (hour - 3), 1: 0})))
        load_between(ledger, seen(4), of_another(seen(5, {0: 20, 1: 0})))
        found = timeline(ledger, "t", None, 100)
        assert [(point["offset"], point["unloaded"]) for point in found["points"]] == [
            ("0", None),
            ("10", None),
            ("20", None),
        ]
        assert [(each["start_offset"], each["end_offset"]) for each in found["windows"]] == [("10", "20")]


def of_another(taken: OffsetSnapshot) -> OffsetSnapshot:
    """The same of a topic that was created since."""
    return replace(taken, topics={"t": replace(taken.topics["t"], topic_id="id-2")})


def test_offsets_beyond_what_a_browsers_number_holds_are_text(ledger: Ledger) -> None:
    place(ledger, seen(0, {0: 2**63 - 100, 1: 2**53 + 1}))
    (point,) = points_of(ledger)
    assert point["offset"] == str(2**63 - 100 + 2**53 + 1)
    assert point["log_end"] == str(2**63 - 100 + 2**53 + 1 + 10)
