"""Messages about brokers' disks: DescribeLogDirs."""

from __future__ import annotations

from dev.golden_messages.message import Fields, request, response


def _log(index: int, size: int, offset_lag: int = 0, is_copy: bool = False) -> Fields:
    return {"partitionIndex": index, "partitionSize": size, "offsetLag": offset_lag, "isFutureKey": is_copy}


def _directory(number: int, error: int, topics: list[Fields], bytes_on_disk: int) -> Fields:
    return {
        "errorCode": error,
        "logDir": f"/logs/{number}",
        "topics": topics,
        "totalBytes": bytes_on_disk,
        "usableBytes": bytes_on_disk,
        "isCordoned": False,
    }


DESCRIBE_LOG_DIRS = (
    request(
        "DescribeLogDirs",
        "some partitions",
        {"topics": [{"topic": "flights", "partitions": [0, 2]}, {"topic": "weather", "partitions": [1]}]},
    ),
    response(
        "DescribeLogDirs",
        "two directories, a copy, and an error",
        {
            "throttleTimeMs": 100,
            "errorCode": 0,
            "results": [
                _directory(1, 0, [{"name": "flights", "partitions": [_log(0, 2**40), _log(2, 0)]}], 2**41),
                _directory(2, 0, [{"name": "flights", "partitions": [_log(0, 17, 9, is_copy=True)]}], 2**41),
                _directory(3, 56, [], -1),
            ],
        },
    ),
    response("DescribeLogDirs", "not allowed to ask", {"throttleTimeMs": 0, "errorCode": 31, "results": []}, since=3),
)
