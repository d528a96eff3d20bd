"""Messages about the ends of leader epochs: OffsetForLeaderEpoch."""

from __future__ import annotations

from dev.golden_messages.message import Fields, request, response


def _asked(index: int, current_leader_epoch: int, leader_epoch: int) -> Fields:
    return {"partition": index, "currentLeaderEpoch": current_leader_epoch, "leaderEpoch": leader_epoch}


def _end(index: int, error: int, leader_epoch: int, end_offset: int) -> Fields:
    return {"errorCode": error, "partition": index, "leaderEpoch": leader_epoch, "endOffset": end_offset}


OFFSET_FOR_LEADER_EPOCH = (
    request(
        "OffsetForLeaderEpoch",
        "some partitions, one without a known leader epoch",
        {
            "replicaId": -1,
            "topics": [
                {"topic": "flights", "partitions": [_asked(0, 7, 5), _asked(2, -1, 0)]},
                {"topic": "weather", "partitions": [_asked(1, 0, 0)]},
            ],
        },
    ),
    response(
        "OffsetForLeaderEpoch",
        "an end, an unknown epoch, and an error",
        {
            "throttleTimeMs": 100,
            "topics": [
                {"topic": "flights", "partitions": [_end(0, 0, 3, 2**40), _end(2, 0, -1, -1)]},
                {"topic": "weather", "partitions": [_end(1, 74, -1, -1)]},
            ],
        },
    ),
)
