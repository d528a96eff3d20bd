"""Answers that come late, broken, or not at all: what they cost, and whom."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.requests.messages import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from airflow_kafka_offsets.errors import ClusterUnreachableError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.logs import LogEpoch
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.integration.client.leader_epochs_answers import epochs_end_at
from tests.integration.client.pieces import A0, ALL, B0, B1, OFFSETS, Pieces
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import (
    classic_groups_are,
    commits_are,
    commits_are_written,
    configs_are,
    consumer_groups_are,
    coordinators_on,
    groups_are_listed,
    hang_up,
    offsets_are,
    producers_are,
    share_groups_are,
    shares_are,
    silence,
    spoilt,
    streams_groups_are,
    throttled,
)
from tests.patience import GRACE_S


class Exchange(NamedTuple):
    """A request as a caller makes it, with a good answer to it.

    :param answers: good answers by request class, given the broker; Metadata and FindCoordinator have theirs.
    :param call: asks, and returns the errors that came back as data.
    :param throttle_since: the first version whose answer tells a throttle time.
    :param oldest: the first version that this client speaks.
    """

    answers: Mapping[Any, Answer]
    call: Callable[[OffsetsClient], list[ResponseError | None]]
    throttle_since: int
    oldest: int = 0


def errors_of(elements: Iterable[Any]) -> list[ResponseError | None]:
    return [each.error for each in elements]


def listed_groups(client: OffsetsClient) -> list[ResponseError | None]:
    try:
        client.all_groups()
    except OffsetsError as error:
        return [each for _, each in error.failures]
    return [None]


FETCHED = Exchange(
    {OffsetFetchRequest: commits_are({A0: 4})}, lambda client: errors_of(client.committed_offsets({"g": [A0]})), 3
)
EXCHANGES = {
    MetadataRequest: Exchange({}, lambda client: errors_of(client.topics(["a"])), 3),
    FindCoordinatorRequest: FETCHED._replace(throttle_since=1),
    ListOffsetsRequest: Exchange(
        {ListOffsetsRequest: offsets_are(5)},
        lambda client: errors_of(client.list_offsets([A0], OffsetSpec.LATEST)),
        2,
    ),
    OffsetFetchRequest: FETCHED,
    OffsetCommitRequest: Exchange(
        {OffsetCommitRequest: commits_are_written()},
        lambda client: errors_of(client.commit_offsets("g", OFFSETS)),
        3,
    ),
    DescribeGroupsRequest: Exchange(
        {DescribeGroupsRequest: classic_groups_are({"g": "Empty"})},
        lambda client: errors_of(client.describe_groups(["g"])),
        1,
    ),
    ConsumerGroupDescribeRequest: Exchange(
        {
            DescribeGroupsRequest: classic_groups_are({}),
            ConsumerGroupDescribeRequest: consumer_groups_are({"g": "Empty"}),
        },
        lambda client: errors_of(client.describe_groups(["g"])),
        0,
    ),
    **{
        request_class: Exchange(
            {
                DescribeGroupsRequest: classic_groups_are({}),
                ConsumerGroupDescribeRequest: consumer_groups_are({}),
                request_class: answer({"g": "Empty"}),
            },
            lambda client: errors_of(client.describe_groups(["g"])),
            oldest,
            oldest,
        )
        for request_class, answer, oldest in (
            (ShareGroupDescribeRequest, share_groups_are, 1),
            (StreamsGroupDescribeRequest, streams_groups_are, 0),
        )
    },
    DescribeShareGroupOffsetsRequest: Exchange(
        {DescribeShareGroupOffsetsRequest: shares_are(0, 5)},
        lambda client: errors_of(client.share_group_offsets({"g": [A0]})),
        1,
        oldest=1,
    ),
    ListGroupsRequest: Exchange({ListGroupsRequest: groups_are_listed("g")}, listed_groups, 1),
    DescribeProducersRequest: Exchange(
        {DescribeProducersRequest: producers_are(7)}, lambda client: errors_of(client.producers([A0])), 0
    ),
    OffsetForLeaderEpochRequest: Exchange(
        {OffsetForLeaderEpochRequest: epochs_end_at(5)},
        lambda client: errors_of(client.epoch_ends([LogEpoch(*A0, 0)]).values()),
        2,
        oldest=2,
    ),
    DescribeConfigsRequest: Exchange(
        {DescribeConfigsRequest: configs_are({"retention.ms": "5"})},
        lambda client: [None for _ in client.topic_facts(["a"])],
        0,
    ),
}
"""Every request that this client makes."""
EVERY_REQUEST = pytest.mark.parametrize("request_class", EXCHANGES, ids=lambda each: each.name)


def scripted(request_class: Any, cluster: ScriptedCluster, change: Callable[[Answer], Answer] | None = None) -> None:
    """Script the good answers for an exchange, the one to this request changed."""
    broker = cluster.brokers[0]
    answers = {MetadataRequest: cluster.metadata, FindCoordinatorRequest: broker.coordinators}
    for each, answer in (answers | EXCHANGES[request_class].answers).items():
        broker.on(each, change(answer) if change and each is request_class else answer)


def _throttling_versions() -> Iterator[Any]:
    for request_class, exchange in EXCHANGES.items():
        since = exchange.throttle_since
        for version in sorted({max(exchange.oldest, since - 1), since, request_class.max_version}):
            yield pytest.param(request_class, version, id=f"{request_class.name} v{version}")


class TestThrottling:
    @pytest.mark.parametrize(("request_class", "version"), list(_throttling_versions()))
    def test_every_answer_that_has_a_throttle_time_tells_it(self, request_class: Any, version: int) -> None:
        with ScriptedCluster({"a": [0], "b": [0, 0]}, versions={request_class: (0, version)}) as cluster:
            scripted(request_class, cluster, lambda answer: throttled(answer, 20))
            client, exchange = cluster.client(), EXCHANGES[request_class]
            exchange.call(client)
            spoken = {each.API_VERSION for each in cluster.requests(request_class)}
            assert client.throttle_time_ms == (20 if min(spoken) >= exchange.throttle_since else 0)

    def test_the_longest_counts_and_the_next_call_starts_anew(self, one: Pieces) -> None:
        one.broker.on(MetadataRequest, throttled(one.cluster.metadata, 20), one.cluster.metadata)
        one.broker.on(ListOffsetsRequest, throttled(offsets_are(5), 10), offsets_are(5))
        one.client.list_offsets(ALL, OffsetSpec.LATEST)
        assert one.client.throttle_time_ms == 20
        one.client.list_offsets(ALL, OffsetSpec.LATEST)
        assert one.client.throttle_time_ms == 0

    def test_the_pause_is_that_brokers_alone(self) -> None:
        with ScriptedCluster({"a": [0], "b": [1, 1]}, brokers=2) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, throttled(offsets_are(5), 60_000))
            cluster.brokers[1].on(ListOffsetsRequest, offsets_are(6))
            client = cluster.client(timeout_s=20)
            client.list_offsets(ALL, OffsetSpec.LATEST)
            started = time.monotonic()
            assert errors_of(client.list_offsets([B0, B1], OffsetSpec.LATEST)) == [None, None]
            assert time.monotonic() - started < GRACE_S

    def test_it_is_waited_for_as_long_as_the_broker_says(self, one: Pieces) -> None:
        one.broker.on(ListOffsetsRequest, throttled(offsets_are(5), 500), offsets_are(6))
        one.client.list_offsets(ALL, OffsetSpec.LATEST)
        started = time.monotonic()
        assert [each.offset for each in one.client.list_offsets(ALL, OffsetSpec.LATEST)] == [6, 6, 6]
        assert time.monotonic() - started > 0.4

    def test_that_lasts_past_the_deadline_is_told_and_not_that_the_broker_is_down(self, one: Pieces) -> None:
        one.broker.on(ListOffsetsRequest, throttled(offsets_are(5), 60_000))
        one.client.list_offsets(ALL, OffsetSpec.LATEST)
        started = time.monotonic()
        (error, *_) = errors_of(one.cluster.hurried(one.client).list_offsets(ALL, OffsetSpec.LATEST))
        assert time.monotonic() - started < GRACE_S
        assert error is not None
        assert (error.name, error.retriable) == ("THROTTLING_QUOTA_EXCEEDED", True)
        assert "a quota throttles this client" in error.message


SIZE, HEADER = 4, 9
"""Bytes of a frame that say its size, and where its body starts at the earliest."""
SPOILT: dict[str, Callable[[Answer], Answer]] = {
    "garbage": lambda answer: spoilt(answer, lambda frame: frame[:HEADER] + b"\xff" * (len(frame) - HEADER)),
    "numbers without end": lambda answer: spoilt(
        answer, lambda frame: frame[:HEADER] + b"\x80" * (len(frame) - HEADER)
    ),
    "a body that ends early": lambda answer: spoilt(answer, _shorter),
    "a size that can't be": lambda answer: spoilt(answer, lambda frame: b"\xff" * SIZE + frame[SIZE:]),
    "another one's answer": lambda answer: spoilt(answer, lambda frame: frame[:SIZE] + b"\x77" * 4 + frame[SIZE + 4 :]),
    "half a frame": lambda answer: spoilt(answer, lambda frame: frame[: len(frame) // 2]),
    "half a frame, then the end": lambda answer: spoilt(
        answer, lambda frame: frame[: len(frame) // 2], then_hang_up=True
    ),
    "the end": lambda _: hang_up,
    "silence": lambda _: silence,
}


_IN_SHORT = ("garbage", "half a frame")
EVERY_WAY = pytest.mark.parametrize(
    "how",
    [
        how if how in _IN_SHORT else pytest.param(how, marks=pytest.mark.nightly(f"{how}: one more way of nine"))
        for how in SPOILT
    ],
)


def _shorter(frame: bytes) -> bytes:
    body = frame[SIZE:-2]
    return len(body).to_bytes(SIZE, "big") + body


def _spoilt_requests() -> Iterator[Any]:
    """Every request in two ways, and the others for one of each decoder."""
    for how in SPOILT:
        marks = [] if how in _IN_SHORT else pytest.mark.nightly(f"{how}: one more way of ten")
        for request_class in EXCHANGES if how in _IN_SHORT else (MetadataRequest, OffsetFetchRequest):
            yield pytest.param(request_class, how, id=f"{request_class.name}, {how}", marks=marks)


class TestBrokenAnswers:
    @pytest.mark.parametrize(("request_class", "how"), list(_spoilt_requests()))
    def test_they_are_errors_within_the_deadline_and_the_next_call_works(self, request_class: Any, how: str) -> None:
        call = EXCHANGES[request_class].call
        with ScriptedCluster({"a": [0], "b": [0, 0]}) as cluster:
            scripted(request_class, cluster)
            client = cluster.client(timeout_s=GRACE_S)
            client.topics(["a"])
            scripted(request_class, cluster, SPOILT[how])
            cluster.hurried(client)
            started = time.monotonic()
            try:
                codes = {each and each.code for each in call(client)}
            except ClusterUnreachableError:
                codes = {13}
                assert request_class in (MetadataRequest, FindCoordinatorRequest, DescribeConfigsRequest)
            assert None not in codes
            assert codes <= {7, 13}, "REQUEST_TIMED_OUT or NETWORK_EXCEPTION"
            assert time.monotonic() - started < GRACE_S
            scripted(request_class, cluster)
            assert set(call(cluster.given_time(client))) == {None}

    @EVERY_WAY
    @pytest.mark.parametrize("version", [9, 7], ids=["our decoder", "kafka-python's"])
    def test_they_cost_the_groups_of_their_broker_and_no_others(self, how: str, version: int) -> None:
        """E29"""
        versions = {OffsetFetchRequest: (0, version)}
        with ScriptedCluster({"a": [0]}, brokers=2, versions=versions) as cluster:
            good = commits_are({A0: 4})
            for broker, answer in zip(cluster.brokers, (good, SPOILT[how](good)), strict=True):
                broker.on(FindCoordinatorRequest, coordinators_on(cluster, {"g": 0, "h": 1}))
                broker.on(OffsetFetchRequest, answer)
            fetched = cluster.client(timeout_s=2).committed_offsets({"g": [A0], "h": [A0]})
            assert [each.error and each.error.code for each in fetched] in ([None, 7], [None, 13])

    @EVERY_REQUEST
    def test_one_of_them_is_made_good_by_the_next_answer(self, request_class: Any) -> None:
        call = EXCHANGES[request_class].call
        with ScriptedCluster({"a": [0], "b": [0, 0]}) as cluster:
            scripted(request_class, cluster)
            client = cluster.client(timeout_s=40)
            client.topics(["a"])
            scripted(request_class, cluster, lambda answer: first(SPOILT["a body that ends early"](answer), answer))
            started = time.monotonic()
            assert set(call(client)) == {None}
            assert time.monotonic() - started < GRACE_S, (
                "the half of the deadline that one answer may take isn't waited out"
            )

    @pytest.mark.parametrize("request_class", [DescribeProducersRequest], ids=lambda each: each.name)
    def test_null_where_there_is_always_a_list_is_an_error_too(self, request_class: Any) -> None:
        def without_topics(frame: bytes) -> bytes:
            throttle_time = 4
            body = frame[SIZE : HEADER + throttle_time] + b"\0\0"
            return len(body).to_bytes(SIZE, "big") + body

        with ScriptedCluster({"a": [0]}) as cluster:
            scripted(request_class, cluster, lambda answer: spoilt(answer, without_topics))
            (error,) = EXCHANGES[request_class].call(cluster.client(timeout_s=2))
            assert error is not None
            assert (error.code, "not in Kafka's protocol" in error.message) == (13, True)


class TestHungCoordinators:
    @pytest.mark.parametrize("topics", [["a"], None], ids=["topics named", "topics of the groups"])
    def test_one_of_them_costs_its_own_groups_their_lag_and_no_others(self, topics: list[str] | None) -> None:
        """E29: the rounds after it still have time."""
        with ScriptedCluster({"a": [0]}, brokers=2) as cluster:
            for broker in cluster.brokers:
                broker.on(FindCoordinatorRequest, coordinators_on(cluster, {"g": 0, "h": 1}))
                broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty"}))
                broker.on(ListOffsetsRequest, offsets_are(5))
            cluster.brokers[0].on(OffsetFetchRequest, commits_are({A0: 4}))
            cluster.brokers[1].on(OffsetFetchRequest, silence)
            good, bad = cluster.client(timeout_s=2).group_lags(["g", "h"], topics=topics)
            assert (good.total, bad.total) == (1, None)
            assert bad.error is not None
            assert bad.error.name in ("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION")


class TestForgetfulAnswers:
    """A partition that is asked for and not answered is an error of its own, and never "no commit"."""

    def test_a_commit_that_was_asked_for_by_name(self, one: Pieces) -> None:
        one.broker.on(OffsetFetchRequest, without_b(commits_are({A0: 4})))
        (group,) = one.client.committed_offsets({"g": [A0, B0]})
        assert [each.offset for each in group.offsets] == [4, None]
        assert "left it out" in str(group.offsets.errors())

    def test_an_offset_that_was_committed(self, one: Pieces) -> None:
        one.broker.on(OffsetCommitRequest, without_b(commits_are_written()))
        written = one.client.commit_offsets("g", OFFSETS)
        assert written.ok().topics() == ["a"]
        assert "left it out" in str(written.errors())


def without_b(answer: Answer) -> Answer:
    """An answer that says nothing about topic b."""

    def forgetful(request: Any) -> Any:
        response = answer(request)
        for each in response.groups if request.name == "OffsetFetchRequest" else [response]:
            each.topics = [topic for topic in each.topics if topic.name != "b"]
        return response

    return forgetful


def first(answer: Answer, then: Answer) -> Answer:
    """An answer to the first request, and another one to all others."""
    answers = itertools.chain([answer], itertools.repeat(then))
    return lambda request: next(answers)(request)
