"""Messages about groups: their coordinators and members, and lists of groups."""

from __future__ import annotations

from dev.golden_messages.message import FLIGHTS_ID, NO_OPERATIONS, WEATHER_ID, Fields, request, response

SUBSCRIPTION = "AAEAAAACAAdmbGlnaHRzAAd3ZWF0aGVy/////wAAAAA="
"""The subscription of a classic consumer of flights and weather (ConsumerProtocolSubscription v1, base64)."""
ASSIGNMENT = "AAEAAAABAAdmbGlnaHRzAAAAAgAAAAAAAAAC/////w=="
"""Partitions 0 and 2 of flights (ConsumerProtocolAssignment v1, base64)."""


def _coordinator(key: str, node: int, host: str, port: int, error: int, message: str | None) -> Fields:
    """A coordinator of one key. Before version 4, the answer is a single coordinator, without the key."""
    return {"key": key, "nodeId": node, "host": host, "port": port, "errorCode": error, "errorMessage": message}


COORDINATOR = _coordinator("g", 3, "kafka-3.example", 9092, 0, None)
NO_COORDINATOR = _coordinator("h", -1, "", -1, 15, "The coordinator is not available.")

FIND_COORDINATOR = (
    request("FindCoordinator", "of a group", {"key": "g", "keyType": 0}, until=3),
    request("FindCoordinator", "of a transaction", {"key": "t", "keyType": 1}, since=1, until=3),
    request("FindCoordinator", "of two groups", {"keyType": 0, "coordinatorKeys": ["g", "h"]}, since=4),
    response("FindCoordinator", "found", {"throttleTimeMs": 100, **COORDINATOR}, until=3),
    response("FindCoordinator", "not available", {"throttleTimeMs": 0, **NO_COORDINATOR}, until=3),
    response(
        "FindCoordinator",
        "found, and not available",
        {"throttleTimeMs": 100, "coordinators": [COORDINATOR, NO_COORDINATOR]},
        since=4,
    ),
)


def _described_group(group: str, state: str, members: list[Fields], error: int = 0, why: str | None = None) -> Fields:
    return {
        "errorCode": error,
        "errorMessage": why,
        "groupId": group,
        "groupState": state,
        "protocolType": "consumer" if members else "",
        "protocolData": "range" if members else "",
        "members": members,
        "authorizedOperations": NO_OPERATIONS if error else 0b1_0100_1000,
    }


def _classic_member(number: int, instance: str | None, metadata: str, assignment: str) -> Fields:
    return {
        "memberId": f"member-{number}",
        "groupInstanceId": instance,
        "clientId": "reader-ü",
        "clientHost": f"/192.0.2.{number}",
        "memberMetadata": metadata,
        "memberAssignment": assignment,
    }


DESCRIBE_GROUPS = (
    request("DescribeGroups", "two groups", {"groups": ["g", "h"], "includeAuthorizedOperations": True}),
    response(
        "DescribeGroups",
        "a group with members, an empty one, one in error",
        {
            "throttleTimeMs": 100,
            "groups": [
                _described_group(
                    "g",
                    "Stable",
                    [
                        _classic_member(1, "instance-1", SUBSCRIPTION, ASSIGNMENT),
                        _classic_member(2, None, SUBSCRIPTION, ""),
                    ],
                ),
                _described_group("h", "Empty", []),
                _described_group("i", "Dead", [], 69, "Group i not found."),
            ],
        },
    ),
)


def _consumer_member(number: int, regex: str | None, assigned: list[Fields], target: list[Fields]) -> Fields:
    static = number == 1
    return {
        "memberId": f"member-{number}",
        "instanceId": "instance-1" if static else None,
        "rackId": "rack-1" if static else None,
        "memberEpoch": 5,
        "clientId": "reader-ü",
        "clientHost": f"/192.0.2.{number}",
        "subscribedTopicNames": [] if regex else ["flights", "weather"],
        "subscribedTopicRegex": regex,
        "assignment": {"topicPartitions": assigned},
        "targetAssignment": {"topicPartitions": target},
        "memberType": 1,
    }


ASSIGNED_FLIGHTS = {"topicId": FLIGHTS_ID, "topicName": "flights", "partitions": [0, 2]}
ASSIGNED_WEATHER = {"topicId": WEATHER_ID, "topicName": "weather", "partitions": [1]}


def _consumer_group(group: str, state: str, members: list[Fields], error: int = 0, why: str | None = None) -> Fields:
    return {
        "errorCode": error,
        "errorMessage": why,
        "groupId": group,
        "groupState": state,
        "groupEpoch": 6 if members else 0,
        "assignmentEpoch": 5 if members else 0,
        "assignorName": "uniform" if members else "",
        "members": members,
        "authorizedOperations": NO_OPERATIONS,
    }


CONSUMER_GROUP_DESCRIBE = (
    request("ConsumerGroupDescribe", "two groups", {"groupIds": ["g", "h"], "includeAuthorizedOperations": False}),
    response(
        "ConsumerGroupDescribe",
        "a reconciling group, and an unknown one",
        {
            "throttleTimeMs": 100,
            "groups": [
                _consumer_group(
                    "g",
                    "Reconciling",
                    [
                        _consumer_member(1, None, [ASSIGNED_FLIGHTS, ASSIGNED_WEATHER], [ASSIGNED_FLIGHTS]),
                        _consumer_member(2, "wea.*", [], [ASSIGNED_WEATHER]),
                    ],
                ),
                _consumer_group("h", "Dead", [], 69, "Group h not found."),
            ],
        },
    ),
)


def _share_member(number: int, topics: list[str], assigned: list[Fields]) -> Fields:
    return {
        "memberId": f"member-{number}",
        "rackId": None,
        "memberEpoch": 5,
        "clientId": "reader-ü",
        "clientHost": f"/192.0.2.{number}",
        "subscribedTopicNames": topics,
        "assignment": {"topicPartitions": assigned},
    }


def _share_group(group: str, state: str, members: list[Fields], error: int = 0, why: str | None = None) -> Fields:
    return {**_consumer_group(group, state, members, error, why), "assignorName": "simple" if members else ""}


SHARE_GROUP_DESCRIBE = (
    request(
        "ShareGroupDescribe", "two groups", {"groupIds": ["s", "h"], "includeAuthorizedOperations": False}, since=1
    ),
    response(
        "ShareGroupDescribe",
        "a stable group, and an unknown one",
        {
            "throttleTimeMs": 100,
            "groups": [
                _share_group("s", "Stable", [_share_member(1, ["flights", "weather"], [ASSIGNED_FLIGHTS])]),
                _share_group("h", "Dead", [], 69, "Group h not found."),
            ],
        },
        since=1,
    ),
)


def _internal_topic(name: str, partitions: int) -> Fields:
    configs = [{"key": "cleanup.policy", "value": "delete"}]
    return {"name": name, "partitions": partitions, "replicationFactor": 0, "topicConfigs": configs}


def _tasks(*active: int) -> Fields:
    task = [{"subtopologyId": "0", "partitions": list(active)}] if active else []
    return {"activeTasks": task, "standbyTasks": [], "warmupTasks": []}


def _streams_group(group: str, state: str, topology: Fields | None, members: list[Fields], error: int = 0) -> Fields:
    return {
        "errorCode": error,
        "errorMessage": f"Group {group} not found." if error else None,
        "groupId": group,
        "groupState": state,
        "groupEpoch": 6 if members else 0,
        "assignmentEpoch": 5 if members else 0,
        "topology": topology,
        "members": members,
        "authorizedOperations": NO_OPERATIONS,
    }


def _streams_member(endpoint: Fields | None, assigned: Fields) -> Fields:
    return {
        "memberId": "member-1",
        "memberEpoch": 5,
        "instanceId": None,
        "rackId": None,
        "clientId": "reader-ü",
        "clientHost": "/192.0.2.1",
        "topologyEpoch": 0,
        "processId": "process-1",
        "userEndpoint": endpoint,
        "clientTags": [{"key": "zone", "value": "a"}],
        "taskOffsets": [{"subtopologyId": "0", "partition": 0, "offset": 42}],
        "taskEndOffsets": [{"subtopologyId": "0", "partition": 0, "offset": 43}],
        "assignment": assigned,
        "targetAssignment": assigned,
        "isClassic": False,
    }


TOPOLOGY: Fields = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopologyId": "0",
            "sourceTopics": ["flights"],
            "repartitionSinkTopics": ["app-by-plane-repartition"],
            "stateChangelogTopics": [],
            "repartitionSourceTopics": [],
        },
        {
            "subtopologyId": "1",
            "sourceTopics": ["weather"],
            "repartitionSinkTopics": [],
            "stateChangelogTopics": [_internal_topic("app-counts-changelog", 0)],
            "repartitionSourceTopics": [_internal_topic("app-by-plane-repartition", 3)],
        },
    ],
}

STREAMS_GROUP_DESCRIBE = (
    request("StreamsGroupDescribe", "two groups", {"groupIds": ["app", "h"], "includeAuthorizedOperations": False}),
    response(
        "StreamsGroupDescribe",
        "a stable group, one whose topics aren't known yet, and an unknown one",
        {
            "throttleTimeMs": 100,
            "groups": [
                _streams_group("app", "Stable", TOPOLOGY, [_streams_member({"host": "a", "port": 80}, _tasks(0, 2))]),
                _streams_group("new", "NotReady", TOPOLOGY, [_streams_member(None, _tasks())]),
                _streams_group("h", "Dead", None, [], 69),
            ],
        },
    ),
)


def _listed_group(group: str, protocol: str, state: str, kind: str) -> Fields:
    return {"groupId": group, "protocolType": protocol, "groupState": state, "groupType": kind}


LIST_GROUPS = (
    request("ListGroups", "all groups", {"statesFilter": [], "typesFilter": []}),
    request(
        "ListGroups",
        "some states and types",
        {"statesFilter": ["Stable", "Empty"], "typesFilter": ["classic", "consumer"]},
        since=4,
    ),
    response(
        "ListGroups",
        "groups of all kinds",
        {
            "throttleTimeMs": 100,
            "errorCode": 0,
            "groups": [
                _listed_group("g", "consumer", "Stable", "classic"),
                _listed_group("gruppe-ü", "consumer", "Reconciling", "consumer"),
                _listed_group("commits-only", "", "Empty", "classic"),
                _listed_group("connect-cluster", "connect", "Stable", "classic"),
                _listed_group("s", "share", "Stable", "share"),
                _listed_group("app", "streams", "Stable", "streams"),
            ],
        },
    ),
    response("ListGroups", "a coordinator that still loads", {"throttleTimeMs": 0, "errorCode": 14, "groups": []}),
)

GROUP_MESSAGES = (
    *FIND_COORDINATOR,
    *DESCRIBE_GROUPS,
    *CONSUMER_GROUP_DESCRIBE,
    *SHARE_GROUP_DESCRIBE,
    *STREAMS_GROUP_DESCRIBE,
    *LIST_GROUPS,
)
