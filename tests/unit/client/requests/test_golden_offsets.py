"""Offsets and commits, asked for and read in frames as Apache Kafka's own classes write them."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.client.requests.list_offsets import (
    list_offsets_request,
    parse_list_offsets,
    parse_segment_offsets,
)
from airflow_kafka_offsets.client.requests.offset_commit import offset_commit_request, parse_offset_commit
from airflow_kafka_offsets.client.requests.offset_fetch import offset_fetch_request, parse_offset_fetch
from airflow_kafka_offsets.client.requests.offset_fetch_bulk import decode_offset_fetch
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from tests.unit.client.requests.golden.frames import Frame, encoded, every, frames
from tests.unit.client.requests.golden.pieces import FLIGHTS_0, FLIGHTS_1, FLIGHTS_2, NOON_MS, WEATHER_1
from tests.unit.client.requests.golden.words import name_of

WORDS = "größer als 7 ✓"
FLEXIBLE_HEADER = 5
"""Size of the header of a flexible response: the correlation id and no tags."""
TOPIC_IDS = {"flights": "666c69db-4874-4655-aadd-b5a4a90e3152", "weather": "77656174-6865-7244-a8ab-d6df37690132"}


class TestListOffsets:
    SPECS = {
        "latest": OffsetSpec.LATEST,
        "latest, read_committed": OffsetSpec.LATEST,
        "earliest": OffsetSpec.EARLIEST,
        "timestamp": OffsetSpec.at(NOON_MS),
        "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
        "earliest-local": OffsetSpec.EARLIEST_LOCAL,
        "latest-tiered": OffsetSpec.LATEST_TIERED,
    }

    @every(frames("list_offsets", "request", *SPECS, since=1))
    def test_every_spec_is_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        committed = frame.what.endswith("read_committed")
        request = list_offsets_request(
            [WEATHER_1, FLIGHTS_2, FLIGHTS_0],
            frame.version,
            1500,
            spec=self.SPECS[frame.what],
            isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
            epochs={FLIGHTS_0: 7, WEATHER_1: 0}.get,
        )
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("list_offsets", "response", "ends, and an error"))
    def test_ends_are_read_with_their_epoch_and_the_error_of_a_partition_is_its_own(self, frame: Frame) -> None:
        listed = parse_list_offsets(frame.decode(), OffsetSpec.LATEST)
        assert {piece: (each.outcome, each.offset, each.timestamp_ms) for piece, each in listed.items()} == {
            FLIGHTS_0: (ListOutcome.FOUND, 42, None),
            FLIGHTS_2: (ListOutcome.ERROR, None, None),
            WEATHER_1: (ListOutcome.FOUND, 0, None),
        }
        assert listed[FLIGHTS_0].leader_epoch == (7 if frame.version >= 4 else None)
        assert listed[WEATHER_1].leader_epoch is None
        assert name_of(listed[FLIGHTS_2].error) == "NOT_LEADER_OR_FOLLOWER"

    @every(frames("list_offsets", "response", "a record at a timestamp, no record, an older record", since=1))
    def test_a_record_is_found_missing_or_older_than_asked(self, frame: Frame) -> None:
        listed = parse_list_offsets(frame.decode(), OffsetSpec.at(NOON_MS))
        assert {piece: (each.outcome, each.offset, each.timestamp_ms) for piece, each in listed.items()} == {
            FLIGHTS_0: (ListOutcome.FOUND, 41, NOON_MS + 500),
            FLIGHTS_2: (ListOutcome.NO_RECORD, None, None),
            WEATHER_1: (ListOutcome.OLDER_THAN_ASKED, 3, NOON_MS - 500),
        }


class TestSegmentOffsets:
    """ListOffsets version 0."""

    ASKED = {
        "latest": (OffsetSpec.LATEST, 1),
        "latest, three offsets": (OffsetSpec.LATEST, 3),
        "earliest": (OffsetSpec.EARLIEST, 1),
        "timestamp": (OffsetSpec.at(NOON_MS), 1),
    }

    @every(frames("list_offsets", "request", *ASKED, until=0))
    def test_segments_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        spec, max_segments = self.ASKED[frame.what]
        request = list_offsets_request(
            [WEATHER_1, FLIGHTS_2, FLIGHTS_0],
            0,
            1,
            spec=spec,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            epochs=lambda _: None,
            max_segments=max_segments,
        )
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("list_offsets", "response", "ends, and an error", until=0))
    def test_segments_are_read_newest_first_and_the_error_of_a_partition_is_its_own(self, frame: Frame) -> None:
        segments = parse_segment_offsets(frame.decode())
        assert {piece: (each.offsets, name_of(each.error)) for piece, each in segments.items()} == {
            FLIGHTS_0: ((42, 17, 0), None),
            FLIGHTS_2: ((), "NOT_LEADER_OR_FOLLOWER"),
            WEATHER_1: ((0,), None),
        }

    @every(frames("list_offsets", "response", "a record at a timestamp, no record, an older record", until=0))
    def test_no_segment_that_old_is_no_offset_and_no_error(self, frame: Frame) -> None:
        segments = parse_segment_offsets(frame.decode())
        assert [(each.offsets, each.error) for each in segments.values()] == [((41,), None), ((), None), ((3,), None)]


class TestOffsetFetch:
    """Version 0 reads ZooKeeper, in the same words."""

    SOME = (WEATHER_1, FLIGHTS_2, FLIGHTS_0)
    WANTED = {
        "some partitions of one group": {"g": SOME},
        "all that one group committed": {"g": None},
        "some of one group, all of another": {"g": SOME, "h": None},
    }

    @every(frames("offset_fetch", "request", *WANTED))
    def test_groups_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        request = offset_fetch_request(self.WANTED[frame.what], frame.version, ids_for(frame, 10))
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("offset_fetch", "response", "commits, none, and an error"))
    def test_commits_of_one_group_are_read(self, frame: Frame) -> None:
        group = parse_offset_fetch("g", frame.decode())
        assert group.error is None
        self.assert_commits(group.offsets, epoch=7 if frame.version >= 5 else None)

    @every(frames("offset_fetch", "response", "a group in error"))
    def test_the_error_of_a_group_is_its_own(self, frame: Frame) -> None:
        group = parse_offset_fetch("g", frame.decode())
        assert (name_of(group.error), len(group.offsets)) == ("NOT_COORDINATOR", 0)

    @every(frames("offset_fetch", "response", "groups with commits, in error, unstable, without commits"))
    def test_groups_of_one_answer_are_told_apart(self, frame: Frame) -> None:
        names = {topic_id: topic for topic, topic_id in TOPIC_IDS.items()}
        fetched = decode_offset_fetch(frame.bytes[FLEXIBLE_HEADER:], frame.version, names)
        assert fetched.throttle_time_ms == 100
        assert {group: name_of(each.error) for group, each in fetched.groups.items()} == {
            "g": None,
            "h": "NOT_COORDINATOR",
            "i": None,
            "j": None,
        }
        self.assert_commits(fetched.groups["g"].offsets, epoch=7)
        (unstable,) = fetched.groups["i"].offsets
        assert (unstable.offset, name_of(unstable.error)) == (None, "UNSTABLE_OFFSET_COMMIT")
        assert len(fetched.groups["j"].offsets) == 0

    def assert_commits(self, offsets: CommittedOffsets, epoch: int | None) -> None:
        missing = offsets.lookup(*WEATHER_1)
        assert [offsets.lookup(*each) for each in (FLIGHTS_0, FLIGHTS_1, FLIGHTS_2)] == [
            CommittedOffset("flights", 0, 42, epoch, WORDS),
            CommittedOffset("flights", 1, 0),
            CommittedOffset("flights", 2),
        ]
        assert missing is not None
        assert (missing.offset, name_of(missing.error)) == (None, "UNKNOWN_TOPIC_OR_PARTITION")


class TestOffsetCommit:
    OFFSETS = CommittedOffsets(
        [
            CommittedOffset("flights", 0, 42, 7, WORDS),
            CommittedOffset("flights", 2, 0),
            CommittedOffset("weather", 1, 2**40),
        ]
    )

    @every(frames("offset_commit", "request", "an administrator", since=2))
    def test_offsets_are_committed_as_an_administrator_of_kafka_does(self, frame: Frame) -> None:
        request = offset_commit_request("g", self.OFFSETS, frame.version, ids_for(frame, 10))
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("offset_commit", "response", since=2))
    def test_what_was_written_is_told_from_what_was_refused(self, frame: Frame) -> None:
        written = parse_offset_commit(self.OFFSETS, frame.decode(), ids_for(frame, 10))
        assert [(each.topic, each.partition, each.offset, name_of(each.error)) for each in written] == [
            ("flights", 0, 42, None),
            ("flights", 2, None, "UNKNOWN_MEMBER_ID"),
            ("weather", 1, None, "TOPIC_AUTHORIZATION_FAILED"),
        ]


def ids_for(frame: Frame, since: int) -> Mapping[str, str] | None:
    """Topic ids, for the versions that take them instead of names."""
    return TOPIC_IDS if frame.version >= since else None
