"""Random histories: a topic that grows, loses records, is truncated and made anew; and tasks and people who wish things
of its pipeline's ledger, each with what it was told some time ago. An oracle remembers what was so once and may not
change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from airflow_kafka_offsets.errors import (
    InstantError,
    KafkaOffsetsError,
    LedgerConflictError,
    LogTruncatedError,
    OutdatedSurveyError,
    TopicChangedError,
    WindowOverlapError,
)
from airflow_kafka_offsets.ledger import corrections, decisions, load_decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Attempted, Output, Published, Restarted, Verified
from airflow_kafka_offsets.ledger.log import Log
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot
from tests.unit.ledger.memory import CREATED, MemoryFiles
from tests.unit.ledger.topic import PARTITIONS, Record, Topic
from tests.unit.offsets.builders import HOUR_MS, T0

HOURS = st.integers(0, 8)
REFUSALS = (
    InstantError,
    LedgerConflictError,
    OutdatedSurveyError,
    WindowOverlapError,
    TopicChangedError,
    LogTruncatedError,
)


class Histories(RuleBasedStateMachine):
    """See the module."""

    asked = Bundle("asked")
    attempts = Bundle("attempts")

    @initialize()
    def begin(self) -> None:
        self.files, self.contents = MemoryFiles(), Contents(MemoryFiles(), "memory")
        self.now_ms, self.lives = T0 + 9 * HOUR_MS, 0
        self.topics: dict[str, Topic] = {}
        self.cluster = "cluster-1"
        self.ranges: dict[int, tuple[str, str]] = {}
        self.read: dict[tuple[int, str], set[int]] = {}
        self.runs = self.made = 0
        self.change(partial(decisions.create, wish=CREATED))
        self.made_anew()

    @property
    def topic(self) -> Topic:
        return self.topics[self.cluster]

    @property
    def state(self) -> State:
        return Log(self.files, "memory").read()

    def change(self, decide: Any) -> int:
        """Each wish comes from a process of its own. What is refused changes nothing."""
        before = dict(self.files.files)
        try:
            return Log(self.files, "memory").change(decide)[1]
        except KafkaOffsetsError as refusal:
            assert isinstance(refusal, REFUSALS), refusal  # noqa: PT017  # anything else is no answer
            after = {name for name in self.files.files if name.startswith("log/")}
            assert after == {name for name in before if name.startswith("log/")}
            return 0

    # What happens in Kafka.

    @rule(partition=st.sampled_from(PARTITIONS), late_ms=st.integers(0, 9 * HOUR_MS), count=st.integers(1, 3))
    def produce(self, partition: int, late_ms: int, count: int) -> None:
        for number in range(count):
            self.made += 1
            record = Record(self.made, self.now_ms - late_ms + number, self.topic.epoch)
            self.topic.records[partition].append(record)

    @rule(minutes=st.integers(1, 90))
    def time_passes(self, minutes: int) -> None:
        self.now_ms += minutes * 60_000

    @rule(partition=st.sampled_from(PARTITIONS), share=st.floats(0, 1))
    def retention(self, partition: int, share: float) -> None:
        kept = int(len(self.topic.records[partition]) * share)
        self.topic.starts[partition] = max(self.topic.starts[partition], kept)

    @precondition(lambda self: self.lives < 4)
    @rule()
    def made_anew(self) -> None:
        self.topics[self.cluster] = Topic(f"id-{self.lives}", self.cluster)
        self.lives += 1
        for hour in range(9, 0, -1):
            for partition in PARTITIONS:
                self.produce(partition, hour * HOUR_MS, 1)

    @rule(times=st.integers(1, 2), restarts=st.booleans())
    def moved(self, times: int, restarts: bool) -> None:
        """The connection reaches the other cluster from now on; or that one, and then this one again."""
        for _ in range(times):
            self.cluster = "cluster-2" if self.cluster == "cluster-1" else "cluster-1"
            if self.cluster not in self.topics:
                self.made_anew()
            if restarts:
                self.restart()

    @rule(partition=st.sampled_from(PARTITIONS), lost=st.integers(1, 4))
    def truncated(self, partition: int, lost: int) -> None:
        """A replica that was behind leads now."""
        records = self.topic.records[partition]
        del records[max(self.topic.starts[partition], len(records) - lost) :]
        self.topic.epoch += 1

    def known(self) -> OffsetSnapshot | None:
        """The newest snapshot, after the restarts since."""
        newest = self.state.newest_snapshot
        if newest is None:
            return None
        return self.state.anew(self.contents.snapshot(newest.offsets), newest.at_ms)

    def is_rewritten(self) -> bool:
        """Whether a resolver refuses to go on, as the newest snapshot's offsets are other records' now, or it reaches
        another cluster."""
        known = self.known()
        is_another = self.state.cluster_id != self.cluster
        return is_another or (known is not None and bool(self.topic.truncated_below(known)))

    # What tasks ask Kafka, and commit some time later.

    @rule(target=asked, first=HOURS, hours=st.integers(1, 3))
    def ask_for_a_window(self, first: int, hours: int) -> Any:
        window = T0 + first * HOUR_MS, T0 + (first + hours) * HOUR_MS
        if window[1] > self.now_ms or self.is_rewritten():
            return None
        missing = [at_ms for at_ms in window if at_ms not in self.state.snapshots]
        found = {at_ms: self.topic.snapshot(AsOf(AsOfKind.INSTANT, at_ms), self.now_ms) for at_ms in missing}
        instants = {at_ms: self.contents.add_snapshot(each) for at_ms, each in found.items()}
        asked = ResolvedOffsets(self.state.number, self.now_ms, instants)
        return partial(decisions.pin, windows=[window], answers=asked, contents=self.contents)

    @rule(
        target=asked,
        since=st.sampled_from(AsOfKind),
        ago_ms=st.integers(0, 4 * HOUR_MS),
        shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    )
    def ask_for_an_increment(self, since: AsOfKind, ago_ms: int, shares: tuple[float, float]) -> Any:
        if self.is_rewritten():
            return None
        self.runs += 1
        latest = self.topic.snapshot(AsOf(AsOfKind.LATEST), self.now_ms)
        instant = self.now_ms - ago_ms if since is AsOfKind.INSTANT else None
        origin = self.topic.snapshot(AsOf(since, instant, "g" if since is AsOfKind.GROUP else None), self.now_ms)
        if since is AsOfKind.GROUP:
            committed = {
                key: replace(each, offset=int(each.log_start_offset * (1 - share) + each.offset * share))
                for share, (key, each) in zip(shares, origin.boundaries.items(), strict=True)
            }
            origin = replace(origin, boundaries=committed)
        asked = ResolvedOffsets(self.state.number, self.now_ms, latest=latest, origin=origin)
        return partial(decisions.pin_increment, by=f"run-{self.runs}", answers=asked, contents=self.contents)

    @rule(wish=consumes(asked))
    def commit(self, wish: Any) -> None:
        if wish is not None:
            self.change(wish)

    @rule(first=HOURS, hours=st.integers(1, 3))
    def resolve(self, first: int, hours: int) -> None:
        self.commit(self.ask_for_a_window(first, hours))

    @rule(since=st.sampled_from(AsOfKind))
    def increment(self, since: AsOfKind) -> None:
        self.commit(self.ask_for_an_increment(since, HOUR_MS, (0.5, 1.0)))

    @rule(wish=asked)
    def commit_and_try_again(self, wish: Any) -> None:
        if wish is not None:
            self.change(wish)
            number = self.state.number
            self.change(wish)
            assert self.state.number == number, "a retry changes nothing"

    # Loads.

    def pick(self, place: int) -> Window | None:
        windows = list(self.state.windows.values())
        return windows[place % len(windows)] if windows else None

    @rule(target=attempts, place=st.integers(0, 9), apart=st.booleans())
    def attempt(self, place: int, apart: bool) -> Any:
        window = self.pick(place)
        if window is None:
            return None
        wish = Attempted(window.name, {"run": place})
        number = self.change(partial(load_decisions.begin, wish=wish, manifest=window.manifest))
        return (window, number, apart) if number else None

    @rule(attempt=attempts)
    def publish(self, attempt: Any) -> None:
        if attempt is None:
            return
        window, number, apart = attempt
        outputs = (Output("", "delta", "s3://lake/t", window.offsets),)
        wish = Published(window.name, number, "0" * 8, f"result-{number}", outputs, apart, self.now_ms)
        before = self.state.windows.get(window.name)
        made = self.change(partial(load_decisions.publish, wish=wish, manifest=window.manifest))
        if made:
            assert before is not None
            assert before.loaded is None
            assert apart or before.newest_attempt is None or before.newest_attempt.number == number
            assert number > before.reloaded

    @rule(place=st.integers(0, 9))
    def verify(self, place: int) -> None:
        window = self.pick(place)
        if window is not None and window.publication is not None:
            wish = Verified(window.name, window.publication.attempt, {"gaps": 0})
            self.change(partial(load_decisions.record_verdict, wish=wish))

    # What people wish.

    @rule(place=st.integers(0, 9))
    def reload(self, place: int) -> None:
        window = self.pick(place)
        if window is not None:
            self.change(partial(load_decisions.reload, windows=[window.name]))
            assert self.state.windows[window.name].loaded is None
            assert self.state.windows[window.name].publication == window.publication, "readers keep the rows"

    @rule(place=st.integers(0, 9), force=st.booleans())
    def void(self, place: int, force: bool) -> None:
        window = self.pick(place)
        if window is not None:
            snapshots = self.state.snapshots
            done = self.change(partial(corrections.void, windows=[window.name], force=force))
            assert bool(done) == (force or window.publication is None)
            assert self.state.snapshots == snapshots, "its time gets the same ones"

    @rule(hour=HOURS, force=st.booleans())
    def rewind(self, hour: int, force: bool) -> None:
        to_ms, before = T0 + hour * HOUR_MS, self.state
        if self.change(partial(corrections.rewind, to_ms=to_ms, force=force)):
            state = self.state
            assert all(at_ms <= to_ms for at_ms in state.snapshots)
            assert all(window.end_ms <= to_ms for window in state.windows.values())
            gone = [each.number for each in before.restarts if each.at_ms > to_ms]
            assert not [each for each in state.restarts if each.at_ms > to_ms]
            assert all(
                state.windows[name] == window
                for name, window in before.windows.items()
                if window.end_ms <= to_ms and not any(number < window.number for number in gone)
            )

    @rule()
    def restart(self) -> None:
        known = self.known()
        if known is not None and self.state.cluster_id != self.cluster:
            wish = Restarted(self.now_ms, ("t",), "moved", self.cluster, resumed=self.left_there())
        elif known is None or "t" not in known.topics:
            return
        elif known.topics["t"].topic_id != self.topic.id:
            wish = Restarted(self.now_ms, ("t",), "re-created")
        elif cut := self.topic.truncated_below(known):
            wish = Restarted(self.now_ms, ("t",), "truncated", truncated=cut)
        else:
            return
        assert self.change(partial(corrections.restart, wish=wish, contents=self.contents))
        assert not self.is_rewritten()

    def left_there(self) -> OffsetSnapshot | None:
        """Where the topic goes on, on a cluster that the pipeline comes back to; None if it has no window of it."""
        seen = corrections.ends_on(self.state, self.cluster, self.contents)
        if seen is None or "t" not in seen.topics or seen.topics["t"].topic_id != self.topic.id:
            return None
        return seen.begun_anew((), self.topic.truncated_below(seen), None)

    # What is so whatever happened.

    @invariant()
    def a_range_never_changes(self) -> None:
        for window in self.state.windows.values():
            known = self.ranges.setdefault(
                window.number * 1_000 + hash(window.name) % 1_000, (window.name, window.manifest)
            )
            assert known == (window.name, window.manifest)

    @invariant()
    def a_window_is_named_after_its_snapshots(self) -> None:
        for window in self.state.windows.values():
            manifest = self.contents.manifest(window)
            assert (manifest.window, manifest.start_ms, manifest.end_ms) == window[:3]

    @invariant()
    def windows_never_cross_and_tile_where_they_meet(self) -> None:
        for earlier, later in pairwise(self.state.windows.values()):
            assert earlier.end_ms <= later.start_ms
            if earlier.end_ms == later.start_ms and not self.restarts_between(earlier, later):
                assert [end for _, end in self.offsets_of(earlier).values()] == [
                    start for start, _ in self.offsets_of(later).values()
                ]

    def restarts_between(self, earlier: Window, later: Window) -> bool:
        """Whether the two are of different logs, by their times or by when they were pinned."""
        first, last = sorted((earlier.number, later.number))
        return any(
            earlier.start_ms < restart.at_ms <= later.end_ms or first < restart.number <= last
            for restart in self.state.restarts
        )

    @invariant()
    def no_record_is_in_two_windows(self) -> None:
        """Of those that can be loaded when they are pinned: publication asks again whether logs were truncated."""
        known = {(window.number, window.name) for window in self.state.windows.values()}
        self.read = {key: ids for key, ids in self.read.items() if key in known}
        for window in self.state.windows.values():
            if (window.number, window.name) not in self.read:
                self.read[window.number, window.name] = set(self.loaded_by(window))
        ids = [each for several in self.read.values() for each in several]
        assert len(ids) == len(set(ids))

    def loaded_by(self, window: Window) -> Iterator[int]:
        """The records that a load of a window reads and publishes now."""
        manifest = self.contents.manifest(window)
        if "t" not in manifest.topics or manifest.topics["t"].topic_id != self.topic.id:
            return
        for each in manifest.ranges:
            for offset, epoch in (
                *((each.start_offset, each.start_leader_epoch), (each.end_offset, each.end_leader_epoch)),
            ):
                if self.topic.end_of(each.partition, epoch or 0)[1] < offset:
                    return
        for number, (start, end) in self.offsets_of(window).items():
            yield from (record.id for record in self.topic.records[number][start:end])

    @invariant()
    def snapshots_are_in_order(self) -> None:
        for earlier, later in pairwise(self.state.snapshots.values()):
            number = max(earlier.number, later.number)
            known, stored = (
                self.state.anew(self.contents.snapshot(each.offsets), each.at_ms, number).boundaries
                for each in (earlier, later)
            )
            assert all(known[key].offset <= stored[key].offset for key in known)

    def offsets_of(self, window: Window) -> dict[int, tuple[int, int]]:
        manifest = self.contents.manifest(window)
        return {each.partition: (each.start_offset, each.end_offset) for each in manifest.ranges}


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
