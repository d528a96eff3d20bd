"""The replay: what a ledger's log adds up to, and whether each commit was allowed, read from its JSON alone.

It is the oracle of the ledger's rules: snapshots have their times for ever, windows never cross in time, an attempt
begins when the window isn't loaded, and what is published is an attempt that nothing has come after. It shares no code
with what it judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.chaos.judge import Key, Times

Entry = Mapping[str, Any]


@dataclass(slots=True)
class Kept:
    """A window.

    :ivar manifest: hash of its manifest.
    :ivar attempts: their entries, by number.
    :ivar reloaded: number of the commit that last said that it is to be loaded again.
    :ivar published: the publication that counts.
    :ivar by: number of its commit.
    """

    manifest: str
    attempts: dict[int, Entry] = field(default_factory=dict)
    reloaded: int = 0
    published: Entry | None = None
    by: int = 0

    @property
    def is_loaded(self) -> bool:
        return self.published is not None and self.by > self.reloaded

    @property
    def lost(self) -> dict[Key, range]:
        """What the published attempt has lost, by topic and partition."""
        if self.published is None:
            return {}
        lost = self.attempts[self.published["attempt"]].get("lost", [])
        return {(topic, partition): range(start, end) for topic, partition, start, end in lost}


class Replay:
    """A log, commit by commit.

    :ivar windows: those that count, by their times.
    :ivar complaints: what must not have been committed.
    """

    def __init__(self) -> None:
        self.windows: dict[Times, Kept] = {}
        self.snapshots: dict[int, str] = {}
        self.complaints: list[str] = []
        self._number = 0

    @property
    def published(self) -> dict[Times, Entry]:
        """The publications that count."""
        return {times: kept.published for times, kept in self.windows.items() if kept.published is not None}

    def add(self, number: int, entries: list[Entry]) -> None:
        """Add the next commit."""
        before, self._number = self._number, number
        if number != before + 1:
            self._complain(f"it follows {before}")
        for each in entries:
            getattr(self, f"_{each['entry']}")(each)

    def _complain(self, words: str) -> None:
        self.complaints.append(f"commit {self._number}: {words}")

    def _kept(self, entry: Entry) -> Kept | None:
        found = self.windows.get(times_of(entry["window"]))
        if found is None:
            self._complain(f"{entry['entry']} is about {entry['window']}, which doesn't count")
        return found

    def _created(self, entry: Entry) -> None:
        if self._number != 1:
            self._complain("the ledger is created again")

    def _snapshot(self, entry: Entry) -> None:
        if self.snapshots.setdefault(entry["at_ms"], entry["offsets"]) != entry["offsets"]:
            self._complain(f"the snapshot at {entry['at_ms']} is resolved again")

    def _window(self, entry: Entry) -> None:
        start_ms, end_ms = times = times_of(entry["window"])
        crossed = [each for each in self.windows if each[0] < end_ms and start_ms < each[1]]
        if crossed:
            self._complain(f"window {times} crosses {crossed}")
        if not {start_ms, end_ms} <= self.snapshots.keys():
            self._complain(f"window {times} is between snapshots that don't count")
        self.windows[times] = Kept(entry["manifest"])

    def _attempt(self, entry: Entry) -> None:
        kept = self._kept(entry)
        if kept is None:
            return
        if kept.is_loaded:
            self._complain(f"an attempt begins at {entry['window']}, which is loaded")
        kept.attempts[self._number] = entry

    def _published(self, entry: Entry) -> None:
        kept, number = self._kept(entry), entry["attempt"]
        if kept is None:
            return
        if kept.is_loaded:
            self._complain(f"{entry['window']} is published, and is loaded already")
        if number not in kept.attempts or number <= kept.reloaded:
            self._complain(
                f"attempt {number} at {entry['window']} is published, and isn't one of {list(kept.attempts)}"
            )
        if not entry["apart"] and number != max(kept.attempts, default=None):
            self._complain(f"attempt {number} at {entry['window']} is published, and a later one may have its place")
        kept.published, kept.by = entry, self._number

    def _verified(self, entry: Entry) -> None:
        kept = self._kept(entry)
        if kept is not None and (kept.published is None or kept.published["attempt"] != entry["attempt"]):
            self._complain(f"attempt {entry['attempt']} at {entry['window']} is verified, and isn't published")

    def _reload(self, entry: Entry) -> None:
        kept = self._kept(entry)
        if kept is not None:
            kept.reloaded = self._number

    def _void(self, entry: Entry) -> None:
        if self._kept(entry) is not None:
            del self.windows[times_of(entry["window"])]

    def _rewind(self, entry: Entry) -> None:
        to_ms = entry["to_ms"]
        self.snapshots = {at_ms: offsets for at_ms, offsets in self.snapshots.items() if at_ms <= to_ms}
        self.windows = {times: kept for times, kept in self.windows.items() if times[1] <= to_ms}

    def _restart(self, entry: Entry) -> None:
        """It changes neither windows nor snapshots."""


def times_of(window: str) -> Times:
    """A window's times, by its name."""
    start, end = (datetime.strptime(f"{each[:-1]}+0000", "%Y%m%dT%H%M%S%f%z") for each in window.split("_"))
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000)
