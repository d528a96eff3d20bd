"""Random record batches: what is found in them is what a naive reader of the same log sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from hypothesis import given, settings, strategies as st
from kafka.record import MemoryRecords

from airflow_kafka_offsets.client.records.record_batches import AbortedTransaction, FoundRecord, read_first_record
from tests.unit.client.records.stored_batches import ABORT, COMMIT, GZIP, T0, batch, emptied, marker


class Event(NamedTuple):
    """What happens next in a log: a producer writes some records, ends its transaction, or the log has a gap.

    :param producer: 0 writes without transactions.
    """

    what: str
    producer: int
    gaps: tuple[bool, ...] = ()


EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["write", "write", "abort", "abort", "commit"]),
        st.sampled_from([0, 1, 1, 1, 2]),
        st.lists(st.booleans(), min_size=1, max_size=4).map(tuple),
    ),
    min_size=4,
    max_size=25,
)


class History:
    """A log, and what a reader of committed records sees of it: told record by record, in the naive way."""

    def __init__(self, events: Iterable[Event], codec: int) -> None:
        self.stored = bytearray()
        self._aborted: list[tuple[AbortedTransaction, int]] = []
        self.visible: list[FoundRecord] = []
        self.all: list[FoundRecord] = []
        self.markers: list[int] = []
        self.end = 0
        self._open: dict[int, list[Any]] = {}
        self._codec = codec
        for event in events:
            self._write(event) if event.what == "write" else self._decide(event.producer, event.what == "commit")
        for producer in list(self._open):
            self._decide(producer, commits=True)
        self.visible.sort()

    def _write(self, event: Event) -> None:
        first_offset, self.end = self.end, self.end + len(event.gaps)
        kept = [first_offset + number for number, gone in enumerate(event.gaps) if not gone]
        written = [FoundRecord(offset, T0 + offset * 7919 % 101) for offset in kept]
        if event.producer:
            self._open.setdefault(event.producer, [first_offset]).extend(written)
        else:
            self.visible += written
        self.all += written
        producer = event.producer or -1
        attributes = 0x10 if event.producer else 0
        self.stored += (
            batch(
                *(each[:2] for each in written),
                base=first_offset,
                last=self.end - 1,
                producer=producer,
                codec=self._codec,
            )
            if written
            else emptied(first_offset, self.end - 1, attributes=attributes, producer=producer)
        )

    def _decide(self, producer: int, commits: bool) -> None:
        if producer not in self._open:
            return
        first_offset, *written = self._open.pop(producer)
        if commits:
            self.visible += written
        else:
            self._aborted.append((AbortedTransaction(producer, first_offset), self.end))
        self.markers.append(self.end)
        self.stored += marker(self.end, producer, COMMIT if commits else ABORT, timestamp=T0 + 1000)
        self.end += 1

    def aborted(self, position: int) -> list[AbortedTransaction]:
        """What a broker tells of: transactions that end at the position or later."""
        return [each for each, last_offset in self._aborted if last_offset >= position]

    def fetched(self, position: int) -> bytes:
        """What a broker sends: from the batch on that contains the position."""
        passed = 0
        for each in MemoryRecords(bytes(self.stored)):
            if each.last_offset >= position:
                break
            passed += each.size_in_bytes
        return bytes(self.stored[passed:])


class TestAgainstANaiveReader:
    @settings(max_examples=200, deadline=None)
    @given(EVENTS, st.sampled_from([0, GZIP]), st.data())
    def test_each_visible_record_is_the_first_from_somewhere(
        self, events: list[Event], codec: int, data: st.DataObject
    ) -> None:
        """E11, E12: whatever was aborted, interleaved and compacted, from every position, in answers of any size."""
        log = History(events, codec)
        committed = data.draw(st.booleans())
        at_or_after_ms = data.draw(st.none() | st.integers(T0, T0 + 101))
        at = start = data.draw(st.integers(0, log.end))
        found = []
        while at < log.end:
            stored = log.fetched(at)
            whole = 12 + int.from_bytes(stored[8:12], "big")  # the first batch comes whole, the last may be cut off
            size = data.draw(st.integers(whole, len(stored)) | st.just(len(stored)))
            read = read_first_record(stored[:size], log.aborted(at) if committed else [], at, at_or_after_ms)
            assert read.error is None
            assert read.record is not None or read.read_to > at
            found += [] if read.record is None else [read.record]
            at = read.read_to + (read.record is not None)
        assert found == [
            each
            for each in (log.visible if committed else log.all)
            if each.offset >= start and (at_or_after_ms is None or (each.timestamp_ms or 0) >= at_or_after_ms)
        ]
