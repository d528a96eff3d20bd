"""Messages about topics: ListOffsets, Metadata, DescribeConfigs, DescribeProducers."""

from __future__ import annotations

from dev.golden_messages.message import FLIGHTS_ID, NO_ID, NO_OPERATIONS, NOON_MS, WEATHER_ID, Fields, request, response


def _list_offsets(timestamp: int, isolation_level: int = 0, max_num_offsets: int = 1) -> Fields:
    """Two partitions of flights, one of them without a known epoch, and one partition of weather."""

    def partition(index: int, epoch: int) -> Fields:
        return {
            "partitionIndex": index,
            "currentLeaderEpoch": epoch,
            "timestamp": timestamp,
            "maxNumOffsets": max_num_offsets,
        }

    return {
        "replicaId": -1,
        "isolationLevel": isolation_level,
        "topics": [
            {"name": "flights", "partitions": [partition(0, 7), partition(2, -1)]},
            {"name": "weather", "partitions": [partition(1, 0)]},
        ],
        "timeoutMs": 1500,
    }


def _listed(index: int, error: int, old_style: list[int], timestamp: int, offset: int, epoch: int) -> Fields:
    return {
        "partitionIndex": index,
        "errorCode": error,
        "oldStyleOffsets": old_style,
        "timestamp": timestamp,
        "offset": offset,
        "leaderEpoch": epoch,
    }


LIST_OFFSETS = (
    request("ListOffsets", "latest", _list_offsets(-1)),
    request("ListOffsets", "latest, read_committed", _list_offsets(-1, isolation_level=1), since=2),
    request("ListOffsets", "latest, three offsets", _list_offsets(-1, max_num_offsets=3), until=0),
    request("ListOffsets", "earliest", _list_offsets(-2)),
    request("ListOffsets", "timestamp", _list_offsets(NOON_MS)),
    request("ListOffsets", "max-timestamp", _list_offsets(-3), since=7),
    request("ListOffsets", "earliest-local", _list_offsets(-4), since=8),
    request("ListOffsets", "latest-tiered", _list_offsets(-5), since=9),
    response(
        "ListOffsets",
        "ends, and an error",
        {
            "throttleTimeMs": 100,
            "topics": [
                {
                    "name": "flights",
                    "partitions": [_listed(0, 0, [42, 17, 0], -1, 42, 7), _listed(2, 6, [], -1, -1, -1)],
                },
                {"name": "weather", "partitions": [_listed(1, 0, [0], -1, 0, -1)]},
            ],
        },
    ),
    response(
        "ListOffsets",
        "a record at a timestamp, no record, an older record",
        {
            "throttleTimeMs": 0,
            "topics": [
                {
                    "name": "flights",
                    "partitions": [_listed(0, 0, [41], NOON_MS + 500, 41, 7), _listed(2, 0, [], -1, -1, -1)],
                },
                {"name": "weather", "partitions": [_listed(1, 0, [3], NOON_MS - 500, 3, 0)]},
            ],
        },
    ),
)


def _metadata(topics: list[Fields] | None, operations: bool = False) -> Fields:
    return {
        "topics": topics,
        "allowAutoTopicCreation": False,
        "includeClusterAuthorizedOperations": operations,
        "includeTopicAuthorizedOperations": operations,
    }


NAMED_TOPICS: list[Fields] = [{"topicId": NO_ID, "name": "flights"}, {"topicId": NO_ID, "name": "weather"}]


def _partition(index: int, leader: int, epoch: int, isr: list[int], offline: list[int], error: int) -> Fields:
    return {
        "errorCode": error,
        "partitionIndex": index,
        "leaderId": leader,
        "leaderEpoch": epoch,
        "replicaNodes": [1, 2],
        "isrNodes": isr,
        "offlineReplicas": offline,
    }


def _topic(name: str | None, topic_id: str, error: int, partitions: list[Fields], internal: bool = False) -> Fields:
    return {
        "errorCode": error,
        "name": name,
        "topicId": topic_id,
        "isInternal": internal,
        "partitions": partitions,
        "topicAuthorizedOperations": NO_OPERATIONS if error else 0b1101_0000_1000,
    }


def _cluster(topics: list[Fields]) -> Fields:
    return {
        "throttleTimeMs": 100,
        "brokers": [
            {"nodeId": 1, "host": "kafka-1.example", "port": 9092, "rack": "rack-1"},
            {"nodeId": 2, "host": "kafka-2.example", "port": 9093, "rack": None},
        ],
        "clusterId": "MkU3OEVBNTcwNTJENDM2Qg",
        "controllerId": 2,
        "topics": topics,
        "clusterAuthorizedOperations": NO_OPERATIONS,
        "errorCode": 0,
    }


NO_CLUSTER: Fields = {**_cluster([]), "brokers": [], "clusterId": None, "controllerId": -1, "errorCode": 129}

METADATA = (
    request("Metadata", "two topics", _metadata(NAMED_TOPICS)),
    request("Metadata", "all topics, by an empty list", _metadata([]), until=0),
    request("Metadata", "all topics, by null", _metadata(None), since=1),
    request("Metadata", "no topics", _metadata([]), since=1),
    request("Metadata", "authorized operations", _metadata(NAMED_TOPICS, operations=True), since=8),
    request("Metadata", "a topic by its id", _metadata([{"topicId": FLIGHTS_ID, "name": None}]), since=12),
    response(
        "Metadata",
        "a topic with every kind of partition, an internal one, an unknown one",
        _cluster(
            [
                _topic(
                    "flights",
                    FLIGHTS_ID,
                    0,
                    [
                        _partition(0, 1, 7, [1, 2], [], 0),
                        _partition(1, -1, 8, [], [1, 2], 5),
                        _partition(2, 2, 9, [2], [1], 9),
                    ],
                ),
                _topic("__consumer_offsets", WEATHER_ID, 0, [_partition(0, 2, 0, [2, 1], [], 0)], internal=True),
                _topic("weather", NO_ID, 3, []),
            ]
        ),
    ),
    response("Metadata", "an unknown topic id", _cluster([_topic(None, FLIGHTS_ID, 100, [])]), since=12),
    response("Metadata", "no answer but: bootstrap again", NO_CLUSTER, since=13),
)


def _resource(topic: str, keys: list[str] | None) -> Fields:
    return {"resourceType": 2, "resourceName": topic, "configurationKeys": keys}


WINDOW_KEYS = ["cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type"]


def _config(name: str, value: str | None, source: int, synonyms: list[Fields], sensitive: bool = False) -> Fields:
    return {
        "name": name,
        "value": value,
        "readOnly": False,
        "isDefault": source == 5,
        "configSource": source,
        "isSensitive": sensitive,
        "synonyms": synonyms,
        "configType": 5 if name == "retention.ms" else 2,
        "documentation": None if sensitive else f"What {name} means.",
    }


DESCRIBE_CONFIGS = (
    request(
        "DescribeConfigs",
        "what windows depend on",
        {
            "resources": [_resource("flights", WINDOW_KEYS), _resource("weather", WINDOW_KEYS)],
            "includeSynonyms": False,
            "includeDocumentation": False,
        },
    ),
    request(
        "DescribeConfigs",
        "everything there is to say",
        {"resources": [_resource("flights", None)], "includeSynonyms": True, "includeDocumentation": True},
    ),
    response(
        "DescribeConfigs",
        "settings, and a topic that may not be described",
        {
            "throttleTimeMs": 100,
            "results": [
                {
                    "errorCode": 0,
                    "errorMessage": None,
                    "resourceType": 2,
                    "resourceName": "flights",
                    "configs": [
                        _config(
                            "retention.ms",
                            "604800000",
                            1,
                            [
                                {"name": "retention.ms", "value": "604800000", "source": 1},
                                {"name": "log.retention.ms", "value": None, "source": 4},
                            ],
                        ),
                        _config("cleanup.policy", "compact,delete", 5, []),
                        _config("secret", None, 4, [], sensitive=True),
                    ],
                },
                {
                    "errorCode": 29,
                    "errorMessage": "Topic authorization failed.",
                    "resourceType": 2,
                    "resourceName": "weather",
                    "configs": [],
                },
            ],
        },
    ),
)


def _producer(number: int, sequence: int, timestamp: int, transaction_start: int) -> Fields:
    return {
        "producerId": number,
        "producerEpoch": 3,
        "lastSequence": sequence,
        "lastTimestamp": timestamp,
        "coordinatorEpoch": 1,
        "currentTxnStartOffset": transaction_start,
    }


DESCRIBE_PRODUCERS = (
    request(
        "DescribeProducers",
        "some partitions",
        {"topics": [{"name": "flights", "partitionIndexes": [0, 2]}, {"name": "weather", "partitionIndexes": [1]}]},
    ),
    response(
        "DescribeProducers",
        "an open transaction, none, and an error",
        {
            "throttleTimeMs": 100,
            "topics": [
                {
                    "name": "flights",
                    "partitions": [
                        {
                            "partitionIndex": 0,
                            "errorCode": 0,
                            "errorMessage": None,
                            "activeProducers": [_producer(4000, 9, NOON_MS, 42), _producer(2**40, -1, -1, -1)],
                        },
                        {"partitionIndex": 2, "errorCode": 0, "errorMessage": None, "activeProducers": []},
                    ],
                },
                {
                    "name": "weather",
                    "partitions": [
                        {"partitionIndex": 1, "errorCode": 6, "errorMessage": "Not the leader.", "activeProducers": []}
                    ],
                },
            ],
        },
    ),
)

TOPIC_MESSAGES = (*LIST_OFFSETS, *METADATA, *DESCRIBE_CONFIGS, *DESCRIBE_PRODUCERS)
