"""Messages about the offsets of groups: those that they have committed, and where share groups are."""

from __future__ import annotations

from dev.golden_messages.message import FLIGHTS_ID, NOON_MS, WEATHER_ID, WORDS, Fields, request, response


def _fetch_group(group: str, topics: list[Fields] | None, member: str | None = None, epoch: int = -1) -> Fields:
    return {"groupId": group, "memberId": member, "memberEpoch": epoch, "topics": topics}


FETCHED_TOPICS: list[Fields] = [
    {"name": "flights", "topicId": FLIGHTS_ID, "partitionIndexes": [0, 2]},
    {"name": "weather", "topicId": WEATHER_ID, "partitionIndexes": [1]},
]


def _fetched(index: int, offset: int, epoch: int, metadata: str | None, error: int) -> Fields:
    return {
        "partitionIndex": index,
        "committedOffset": offset,
        "committedLeaderEpoch": epoch,
        "metadata": metadata,
        "errorCode": error,
    }


FETCHED: list[Fields] = [
    {
        "name": "flights",
        "topicId": FLIGHTS_ID,
        "partitions": [_fetched(0, 42, 7, WORDS, 0), _fetched(1, 0, -1, None, 0), _fetched(2, -1, -1, "", 0)],
    },
    {"name": "weather", "topicId": WEATHER_ID, "partitions": [_fetched(1, -1, -1, "", 3)]},
]
UNSTABLE: list[Fields] = [{"name": "flights", "topicId": FLIGHTS_ID, "partitions": [_fetched(0, -1, -1, "", 88)]}]

OFFSET_FETCH = (
    request(
        "OffsetFetch",
        "some partitions of one group",
        {"groupId": "g", "topics": FETCHED_TOPICS, "requireStable": True},
        until=7,
    ),
    request(
        "OffsetFetch",
        "all that one group committed",
        {"groupId": "g", "topics": None, "requireStable": True},
        since=2,
        until=7,
    ),
    request(
        "OffsetFetch",
        "some of one group, all of another",
        {"groups": [_fetch_group("g", FETCHED_TOPICS), _fetch_group("h", None)], "requireStable": True},
        since=8,
    ),
    request(
        "OffsetFetch",
        "a member, unstable offsets too",
        {"groups": [_fetch_group("g", FETCHED_TOPICS, "member-1", 5)], "requireStable": False},
        since=9,
    ),
    response(
        "OffsetFetch",
        "commits, none, and an error",
        {"throttleTimeMs": 100, "topics": FETCHED, "errorCode": 0},
        until=7,
    ),
    response("OffsetFetch", "a group in error", {"throttleTimeMs": 0, "topics": [], "errorCode": 16}, since=2, until=7),
    response(
        "OffsetFetch", "an unstable offset", {"throttleTimeMs": 0, "topics": UNSTABLE, "errorCode": 0}, since=7, until=7
    ),
    response(
        "OffsetFetch",
        "groups with commits, in error, unstable, without commits",
        {
            "throttleTimeMs": 100,
            "groups": [
                {"groupId": "g", "topics": FETCHED, "errorCode": 0},
                {"groupId": "h", "topics": [], "errorCode": 16},
                {"groupId": "i", "topics": UNSTABLE, "errorCode": 0},
                {"groupId": "j", "topics": [], "errorCode": 0},
            ],
        },
        since=8,
    ),
)


def _commit(index: int, offset: int, epoch: int, metadata: str | None, timestamp: int = -1) -> Fields:
    return {
        "partitionIndex": index,
        "committedOffset": offset,
        "committedLeaderEpoch": epoch,
        "commitTimestamp": timestamp,
        "committedMetadata": metadata,
    }


OFFSET_COMMIT = (
    request(
        "OffsetCommit",
        "an administrator",
        {
            "groupId": "g",
            "generationIdOrMemberEpoch": -1,
            "memberId": "",
            "groupInstanceId": None,
            "retentionTimeMs": -1,
            "topics": [
                {
                    "name": "flights",
                    "topicId": FLIGHTS_ID,
                    "partitions": [_commit(0, 42, 7, WORDS), _commit(2, 0, -1, "")],
                },
                {"name": "weather", "topicId": WEATHER_ID, "partitions": [_commit(1, 2**40, -1, "")]},
            ],
        },
    ),
    request(
        "OffsetCommit",
        "a static member, without metadata",
        {
            "groupId": "g",
            "generationIdOrMemberEpoch": 5,
            "memberId": "member-1",
            "groupInstanceId": "instance-1",
            "retentionTimeMs": 86400000,
            "topics": [{"name": "flights", "topicId": FLIGHTS_ID, "partitions": [_commit(0, 42, 7, None, NOON_MS)]}],
        },
    ),
    response(
        "OffsetCommit",
        "written, and errors",
        {
            "throttleTimeMs": 100,
            "topics": [
                {
                    "name": "flights",
                    "topicId": FLIGHTS_ID,
                    "partitions": [{"partitionIndex": 0, "errorCode": 0}, {"partitionIndex": 2, "errorCode": 25}],
                },
                {"name": "weather", "topicId": WEATHER_ID, "partitions": [{"partitionIndex": 1, "errorCode": 29}]},
            ],
        },
    ),
)


def _share_offset(index: int, start: int, lag: int, epoch: int = 0, error: int = 0) -> Fields:
    return {
        "partitionIndex": index,
        "startOffset": start,
        "leaderEpoch": epoch,
        "lag": lag,
        "errorCode": error,
        "errorMessage": "Not the leader." if error else None,
    }


DESCRIBE_SHARE_GROUP_OFFSETS = (
    request(
        "DescribeShareGroupOffsets",
        "some of one group, all of another",
        {
            "groups": [
                {
                    "groupId": "s",
                    "topics": [
                        {"topicName": "flights", "partitions": [0, 1, 2]},
                        {"topicName": "weather", "partitions": [1]},
                    ],
                },
                {"groupId": "t", "topics": None},
            ]
        },
    ),
    response(
        "DescribeShareGroupOffsets",
        "offsets, none, an error, and a group in error",
        {
            "throttleTimeMs": 100,
            "groups": [
                {
                    "groupId": "s",
                    "topics": [
                        {
                            "topicName": "flights",
                            "topicId": FLIGHTS_ID,
                            "partitions": [
                                _share_offset(0, 42, 7, 3),
                                _share_offset(1, -1, -1),
                                _share_offset(2, 9, -1, 3),
                            ],
                        },
                        {
                            "topicName": "weather",
                            "topicId": WEATHER_ID,
                            "partitions": [_share_offset(1, -1, -1, error=6)],
                        },
                    ],
                    "errorCode": 0,
                    "errorMessage": None,
                },
                {"groupId": "t", "topics": [], "errorCode": 69, "errorMessage": "Group t not found."},
            ],
        },
    ),
)

GROUP_OFFSET_MESSAGES = (*OFFSET_FETCH, *OFFSET_COMMIT, *DESCRIBE_SHARE_GROUP_OFFSETS)
