"""What scripted brokers say: an answer for each request, with an error code for any partition, group or topic.

Answers are about what was asked for, as a broker's are. :func:`throttled` and :func:`spoilt` change them on their way.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeProducersResponse,
    ListGroupsResponse,
)
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse, OffsetCommitResponse, OffsetFetchResponse

from airflow_kafka_offsets.client.requests.messages import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic
from tests.integration.client.scripted import Answer, ScriptedBroker, ScriptedCluster, Wire, framed

Codes = Mapping[TopicPartition, int]
"""Error codes by partition; the others are fine. With topic ids, the id is the topic."""
CodesByName = Mapping[str, int]
"""Error codes by topic or group; the others are fine."""
States = Mapping[str, str | int]
"""State, or error code, by group."""
NO_CODES: Mapping[Any, int] = {}

GROUP_ID_NOT_FOUND = 69
_GROUPS_AT_ONCE = 8
"""The version of OffsetFetch from which on it answers for several groups."""


def silence(_: Any) -> None:
    """No answer at all, and the connection stays open."""


def hang_up(_: Any) -> Wire:
    """No answer at all, and the connection is closed."""
    return Wire(hang_up=True)


def spoilt(answer: Answer, spoil: Callable[[bytes], bytes], *, then_hang_up: bool = False) -> Answer:
    """An answer whose bytes change on their way.

    :param spoil: from the frame, its size included, to what arrives.
    """

    def spoilt_answer(request: Any) -> Wire:
        frame = framed(answer(request), request.API_VERSION, request.header.correlation_id)
        return Wire(spoil(frame), then_hang_up)

    return spoilt_answer


def throttled(answer: Answer, throttle_time_ms: int) -> Answer:
    """An answer that says for how long the broker throttles the client."""

    def throttled_answer(request: Any) -> Any:
        response = answer(request)
        response.throttle_time_ms = throttle_time_ms
        return response

    return throttled_answer


def metadata_is(cluster: ScriptedCluster, *, topics: CodesByName = NO_CODES, partitions: Codes = NO_CODES) -> Answer:
    """A Metadata answer. Topics in error have no partitions, and partitions in error no leader."""

    def answer(request: Any) -> Any:
        response = cluster.metadata(request)
        for topic in response.topics:
            topic.error_code = topics.get(topic.name, topic.error_code)
            topic.partitions = [] if topic.error_code else topic.partitions
            for each in topic.partitions:
                each.error_code = partitions.get(TopicPartition(topic.name, each.partition_index), each.error_code)
                each.leader_id = -1 if each.error_code else each.leader_id
        return response

    return answer


def coordinators_are(broker: ScriptedBroker, *, errors: CodesByName = NO_CODES) -> Answer:
    """A FindCoordinator answer that names this broker for every group, before version 4 for the only one."""

    def answer(request: Any) -> Any:
        response = broker.coordinators(request)
        for each in response.coordinators:
            each.error_code = errors.get(each.key, 0)
        response.error_code = errors.get(request.key, 0)
        return response

    return answer


def coordinators_on(cluster: ScriptedCluster, nodes: Mapping[str, int]) -> Answer:
    """A FindCoordinator answer that names a broker for each group."""

    def answer(request: Any) -> Any:
        response = cluster.brokers[0].coordinators(request)
        for each in response.coordinators:
            each.node_id, each.port = nodes[each.key], cluster.brokers[nodes[each.key]].port
        return response

    return answer


def offsets_are(offset: int, *, errors: Codes = NO_CODES, timestamp: int = -1) -> Answer:
    """A ListOffsets answer: the same offset everywhere."""
    topic_class = ListOffsetsResponse.ListOffsetsTopicResponse

    def partition(piece: TopicPartition) -> Any:
        code = errors.get(piece, 0)
        return topic_class.ListOffsetsPartitionResponse(
            partition_index=piece.partition,
            error_code=code,
            old_style_offsets=[] if code else [offset],
            offset=-1 if code else offset,
            timestamp=timestamp,
            leader_epoch=7,
        )

    return lambda request: ListOffsetsResponse(topics=_answered(topic_class, partition, request))


def start_and_end_are(start: int, end: int) -> Answer:
    """A ListOffsets answer by what is asked for: the log's end, or anything else."""
    return lambda request: offsets_are(end if request.topics[0].partitions[0].timestamp == -1 else start)(request)


def _answered(topic_class: Any, partition: Callable[[TopicPartition], Any], request: Any) -> list[Any]:
    """The topics of an answer: those of the request, by name or by id."""
    topics = []
    for topic in request.topics:
        name = topic.name or str(topic.topic_id)
        partitions = [partition(TopicPartition(name, each.partition_index)) for each in topic.partitions]
        topics.append(_topic(topic_class, name, partitions))
    return topics


def _topic(topic_class: Any, name: str, partitions: list[Any]) -> Any:
    """A topic of an answer. Ids look like ids; the version decides whether the name or the id is sent."""
    with contextlib.suppress(ValueError):
        return topic_class(topic_id=uuid.UUID(name), partitions=partitions)
    return topic_class(name=name, partitions=partitions)


def commits_are(
    offsets: Mapping[TopicPartition, int], *, groups: CodesByName = NO_CODES, errors: Codes = NO_CODES
) -> Answer:
    """An OffsetFetch answer: every group has the same commits, and tells those that it is asked for.

    :param groups: error code by group.
    """

    def answer(request: Any) -> Any:
        group_class = OffsetFetchResponse.OffsetFetchResponseGroup
        if request.API_VERSION < _GROUPS_AT_ONCE:
            topics = told(OffsetFetchResponse.OffsetFetchResponseTopic, request)
            return OffsetFetchResponse(topics=topics, error_code=groups.get(request.group_id, 0))
        answers = [
            group_class(
                group_id=each.group_id,
                topics=told(group_class.OffsetFetchResponseTopics, each),
                error_code=groups.get(each.group_id, 0),
            )
            for each in request.groups
        ]
        return OffsetFetchResponse(groups=answers)

    def told(topic_class: Any, asked: Any) -> list[Any]:
        if asked.group_id in groups:
            return []
        partition_class = topic_class.fields["partitions"].data_class
        wanted = {*offsets, *errors} if asked.topics is None else _asked_pieces(asked.topics)
        return [
            _topic(topic_class, topic, [commit(partition_class, each) for each in pieces])
            for topic, pieces in by_topic(wanted).items()
        ]

    def commit(partition_class: Any, piece: TopicPartition) -> Any:
        code = errors.get(piece, 0)
        return partition_class(
            partition_index=piece.partition,
            committed_offset=-1 if code else offsets.get(piece, -1),
            committed_leader_epoch=-1,
            metadata="",
            error_code=code,
        )

    return answer


def _asked_pieces(topics: list[Any]) -> Iterator[TopicPartition]:
    for topic in topics:
        for number in topic.partition_indexes:
            yield TopicPartition(topic.name or str(topic.topic_id), number)


def commits_are_written(*, errors: Codes = NO_CODES) -> Answer:
    """An OffsetCommit answer."""
    topic_class = OffsetCommitResponse.OffsetCommitResponseTopic

    def partition(piece: TopicPartition) -> Any:
        code = errors.get(piece, 0)
        return topic_class.OffsetCommitResponsePartition(partition_index=piece.partition, error_code=code)

    return lambda request: OffsetCommitResponse(topics=_answered(topic_class, partition, request))


def classic_groups_are(states: States) -> Answer:
    """A DescribeGroups answer. Groups that aren't mentioned are not found."""
    return _groups_are(
        DescribeGroupsResponse,
        states,
        lambda request: request.groups,
        {"protocol_type": "consumer", "protocol_data": ""},
    )


def consumer_groups_are(states: States) -> Answer:
    """A ConsumerGroupDescribe answer (KIP-848). Groups that aren't mentioned are not found."""
    nothing = {"group_epoch": 1, "assignment_epoch": 1, "assignor_name": ""}
    return _groups_are(ConsumerGroupDescribeRequest.response_class, states, lambda request: request.group_ids, nothing)


def share_groups_are(states: States) -> Answer:
    """A ShareGroupDescribe answer (KIP-932). Groups that aren't mentioned are not found."""
    nothing = {"group_epoch": 1, "assignment_epoch": 1, "assignor_name": ""}
    return _groups_are(ShareGroupDescribeRequest.response_class, states, lambda request: request.group_ids, nothing)


def streams_groups_are(states: States) -> Answer:
    """A StreamsGroupDescribe answer (KIP-1071). Groups that aren't mentioned are not found."""
    nothing = {"group_epoch": 1, "assignment_epoch": 1, "topology": None}
    return _groups_are(StreamsGroupDescribeRequest.response_class, states, lambda request: request.group_ids, nothing)


def shares_are(start: int, lag: int) -> Answer:
    """A DescribeShareGroupOffsets answer: every group has come so far on partition 0 of topic a."""
    group_class = DescribeShareGroupOffsetsRequest.response_class.DescribeShareGroupOffsetsResponseGroup
    topic_class = group_class.DescribeShareGroupOffsetsResponseTopic
    row_class = topic_class.DescribeShareGroupOffsetsResponsePartition
    row = {"partition_index": 0, "start_offset": start, "leader_epoch": 0, "lag": lag, "error_code": 0}

    def answer(request: Any) -> Any:
        topics = [topic_class(topic_name="a", partitions=[row_class(**row)])]
        groups = [group_class(group_id=each.group_id, topics=topics, error_code=0) for each in request.groups]
        return DescribeShareGroupOffsetsRequest.response_class(groups=groups)

    return answer


def _groups_are(
    response_class: Any, states: States, asked: Callable[[Any], list[str]], besides: Mapping[str, Any]
) -> Answer:
    def described(group: str) -> Any:
        state = states.get(group, GROUP_ID_NOT_FOUND)
        known = isinstance(state, str)
        return response_class.DescribedGroup(
            error_code=0 if known else state,
            error_message=None,
            group_id=group,
            group_state=state if known else "",
            members=[],
            **besides,
        )

    return lambda request: response_class(groups=[described(each) for each in asked(request)])


class Listed(NamedTuple):
    """A group of a ListGroups answer; unless told otherwise, one of classic consumers."""

    group: str
    state: str = "Empty"
    kind: str = "classic"
    protocol_type: str = "consumer"


def groups_are_listed(*groups: str | Listed, error_code: int = 0) -> Answer:
    """A ListGroups answer."""
    listed_class = ListGroupsResponse.ListedGroup

    def answer(_: Any) -> Any:
        found = [group if isinstance(group, Listed) else Listed(group) for group in groups]
        listed = [
            listed_class(
                group_id=each.group,
                protocol_type=each.protocol_type,
                group_state=each.state,
                group_type=each.kind,
            )
            for each in found
        ]
        return ListGroupsResponse(error_code=error_code, groups=listed)

    return answer


def configs_are(configs: Mapping[str, str], *, errors: CodesByName = NO_CODES) -> Answer:
    """A DescribeConfigs answer: every topic has the same settings."""
    result_class = DescribeConfigsResponse.DescribeConfigsResult

    def setting(name: str, value: str) -> Any:
        return result_class.DescribeConfigsResourceResult(
            name=name, value=value, read_only=False, is_default=False, is_sensitive=False, synonyms=[]
        )

    def result(resource: Any) -> Any:
        code = errors.get(resource.resource_name, 0)
        return result_class(
            error_code=code,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[] if code else [setting(*each) for each in configs.items()],
        )

    return lambda request: DescribeConfigsResponse(results=[result(each) for each in request.resources])


def producers_are(*producer_ids: int, errors: Codes = NO_CODES) -> Answer:
    """A DescribeProducers answer: the same producers everywhere, none with an open transaction."""
    topic_class = DescribeProducersResponse.TopicResponse

    def producer(producer_id: int) -> Any:
        return topic_class.PartitionResponse.ProducerState(
            producer_id=producer_id,
            producer_epoch=0,
            last_sequence=-1,
            last_timestamp=-1,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        )

    def partition(topic: str, number: int) -> Any:
        code = errors.get(TopicPartition(topic, number), 0)
        return topic_class.PartitionResponse(
            partition_index=number,
            error_code=code,
            error_message=None,
            active_producers=[] if code else [producer(each) for each in producer_ids],
        )

    return lambda request: DescribeProducersResponse(
        topics=[
            topic_class(name=each.name, partitions=[partition(each.name, number) for number in each.partition_indexes])
            for each in request.topics
        ]
    )


def batches_are(
    batches: Mapping[TopicPartition, bytes], *, end: int, errors: Codes = NO_CODES, error_code: int = 0
) -> Answer:
    """A Fetch answer: nothing of partitions that aren't mentioned.

    :param end: of every log.
    :param error_code: of the request, beside which there are no partitions.
    """
    topic_class = FetchResponse.FetchableTopicResponse

    def partition(piece: TopicPartition) -> Any:
        code = errors.get(piece, 0)
        return topic_class.PartitionData(
            partition_index=piece.partition,
            error_code=code,
            high_watermark=-1 if code else end,
            last_stable_offset=-1 if code else end,
            log_start_offset=-1 if code else 0,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=b"" if code else batches.get(piece, b""),
        )

    def answer(request: Any) -> Any:
        topics = []
        for topic in request.topics:
            pieces = [TopicPartition(topic.topic, each.partition) for each in topic.partitions]
            topics.append(topic_class(topic=topic.topic, partitions=list(map(partition, pieces))))
        return FetchResponse(error_code=error_code, session_id=0, responses=[] if error_code else topics)

    return answer
