"""Topics, their settings, producers and records, and coordinators: frames as Apache Kafka's own classes write them."""

from __future__ import annotations

from airflow_kafka_offsets.client.requests.describe_configs import parse_topic_configs, topic_configs_request
from airflow_kafka_offsets.client.requests.describe_producers import (
    describe_producers_request,
    parse_describe_producers,
)
from airflow_kafka_offsets.client.routing.coordinators import coordinator_of, coordinator_requests, parse_coordinators
from airflow_kafka_offsets.client.routing.metadata import metadata_request, parse_metadata
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.logs import ActiveProducer
from tests.unit.client.requests.golden.frames import Frame, encoded, every, frames
from tests.unit.client.requests.golden.pieces import FLIGHTS_0, FLIGHTS_2, NOON_MS, WEATHER_1
from tests.unit.client.requests.golden.words import name_of


class TestDescribeProducers:
    @every(frames("describe_producers", "request", "some partitions"))
    def test_partitions_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        request = describe_producers_request([WEATHER_1, FLIGHTS_2, FLIGHTS_0], frame.version)
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("describe_producers", "response"))
    def test_open_transactions_are_told_from_none_and_from_errors(self, frame: Frame) -> None:
        found = parse_describe_producers(frame.decode())
        assert found[FLIGHTS_0].producers == (ActiveProducer(4000, 3, NOON_MS, 42), ActiveProducer(2**40, 3))
        assert [each.producer_id for each in found[FLIGHTS_0].open_transactions] == [4000]
        assert (found[FLIGHTS_2].producers, found[FLIGHTS_2].error) == ((), None)
        assert str(found[WEATHER_1].error) == "NOT_LEADER_OR_FOLLOWER (6): Not the leader."


class TestCoordinators:
    @every(frames("find_coordinator", "request", "of a group", "of two groups"))
    def test_groups_are_looked_up_as_kafka_does(self, frame: Frame) -> None:
        groups = ["g", "h"] if frame.version >= 4 else ["g"]
        (request,) = coordinator_requests(groups, frame.version)
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("find_coordinator", "response", "found", "found, and not available"))
    def test_a_coordinator_is_found(self, frame: Frame) -> None:
        row = parse_coordinators(["g"], [frame.decode()])["g"]
        assert coordinator_of(row) == 3
        assert (row.host, row.port) == ("kafka-3.example", 9092)

    @every(frames("find_coordinator", "response", "not available", "found, and not available"))
    def test_none_is_an_error_in_kafkas_words(self, frame: Frame) -> None:
        place = coordinator_of(parse_coordinators(["h"], [frame.decode()])["h"])
        assert isinstance(place, ResponseError)
        assert place.name == "COORDINATOR_NOT_AVAILABLE"
        assert place.message == ("The coordinator is not available." if frame.version >= 1 else "")


class TestMetadata:
    TOPICS = {
        "two topics": ["flights", "weather"],
        "all topics, by an empty list": None,
        "all topics, by null": None,
        "no topics": [],
    }

    @every(frames("metadata", "request", *TOPICS))
    def test_topics_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        assert encoded(metadata_request(self.TOPICS[frame.what], frame.version)).hex() == frame.bytes.hex()

    ALL_KINDS = frames("metadata", "response", "a topic with every kind of partition, an internal one, an unknown one")

    @every(ALL_KINDS)
    def test_partitions_have_a_leader_and_its_epoch_or_an_error(self, frame: Frame) -> None:
        topic = parse_metadata(frame.decode()).lookup("flights")
        assert topic is not None
        assert [(each.leader, name_of(each.error)) for each in topic.partitions] == [
            (1, None),
            (None, "LEADER_NOT_AVAILABLE"),
            (2, None),
        ]
        assert topic.partitions[0].leader_epoch == (7 if frame.version >= 9 else None)

    @every(ALL_KINDS)
    def test_topics_have_what_their_version_tells_of_them(self, frame: Frame) -> None:
        topics = parse_metadata(frame.decode())
        assert topics.cluster_id == ("MkU3OEVBNTcwNTJENDM2Qg" if frame.version >= 2 else None)
        assert [(each.topic, each.internal, name_of(each.error)) for each in topics] == [
            ("__consumer_offsets", frame.version >= 1, None),
            ("flights", False, None),
            ("weather", False, "UNKNOWN_TOPIC_OR_PARTITION"),
        ]
        assert [each.topic_id is not None for each in topics] == [frame.version >= 10] * 2 + [False]


class TestTopicConfigs:
    @every(frames("describe_configs", "request", "what windows depend on"))
    def test_settings_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        assert encoded(topic_configs_request(["flights", "weather"], frame.version)).hex() == frame.bytes.hex()

    @every(frames("describe_configs", "response"))
    def test_settings_with_a_value_are_read_of_topics_that_may_be_described(self, frame: Frame) -> None:
        assert parse_topic_configs(frame.decode()) == {
            "flights": {"retention.ms": "604800000", "cleanup.policy": "compact,delete"}
        }
