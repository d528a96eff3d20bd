"""What brokers say of each request: the errors that a page of ``docs/development/requests`` has to name, and may name.

Read from Kafka's sources, of 4.0 before its release (trunk at 1eb7644349, October 2024): the errors that the classes of
the responses (``org.apache.kafka.common.requests``) list, and those that the code which answers gives (``KafkaApis``,
``ReplicaManager``, ``Partition``, ``ConfigHelper``, the metadata cache, the group coordinator with its groups), or that
Kafka's own consumer expects (``FetchCollector``). Later are ``UNKNOWN_TOPIC_ID`` of OffsetFetch and OffsetCommit (4.1),
``TOPIC_AUTHORIZATION_FAILED`` of ConsumerGroupDescribe (4.0), and all of DescribeShareGroupOffsets (4.3); earlier is
``CLUSTER_AUTHORIZATION_FAILED`` of OffsetForLeaderEpoch (before 2.3). What can't come, as this client never asks so,
isn't on the pages; why not, is here.
"""

from __future__ import annotations

from typing import NamedTuple

_READ_FROM_A_LOG = "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER KAFKA_STORAGE_ERROR TOPIC_AUTHORIZATION_FAILED"
_EPOCHS = "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH"
_COORDINATOR = (
    "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_GROUP_ID GROUP_AUTHORIZATION_FAILED"
)


class Said(NamedTuple):
    """The errors of one page's requests.

    :param classes: what the class of the response lists; empty where it lists nothing.
    :param code: what the code that answers gives beside it, and what later versions added.
    :param never: which of these can't come, as this client never asks so, with why.
    :param ours: what the client itself calls something that came, or didn't.
    :param place: the page of the request that looks up whom to ask; its errors may be named too.
    """

    classes: str
    code: str = ""
    never: dict[str, str] = {}
    ours: str = ""
    place: str = ""

    def must(self) -> set[str]:
        return {*self.classes.split(), *self.code.split()} - set(self.never)

    def may(self) -> set[str]:
        return self.must() | set(self.ours.split())


_BY_ID = "topics are asked for by name"
_ALONE = "the client takes part in no group and no transaction"

SAID = {
    "describe_configs.md": Said(
        "",
        "UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED INVALID_REQUEST "
        "CLUSTER_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED",
        {
            "INVALID_REQUEST": "only topics are asked for",
            "CLUSTER_AUTHORIZATION_FAILED": "only topics are asked for",
            "GROUP_AUTHORIZATION_FAILED": "only topics are asked for",
        },
    ),
    "describe_groups.md": Said(
        # DescribeGroups; ConsumerGroupDescribe; ListGroups lists nothing
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED "
        "INVALID_REQUEST INVALID_GROUP_ID GROUP_ID_NOT_FOUND",
        f"{_COORDINATOR} UNSUPPORTED_VERSION TOPIC_AUTHORIZATION_FAILED",
        ours="INCONSISTENT_GROUP_PROTOCOL",
        place="find_coordinator.md",
    ),
    "describe_share_group_offsets.md": Said(
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED "
        "TOPIC_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND INVALID_REQUEST UNKNOWN_SERVER_ERROR",
        place="find_coordinator.md",
    ),
    "describe_producers.md": Said("", f"{_READ_FROM_A_LOG} INVALID_TOPIC_EXCEPTION", place="metadata.md"),
    "fetch.md": Said(
        f"OFFSET_OUT_OF_RANGE TOPIC_AUTHORIZATION_FAILED REPLICA_NOT_AVAILABLE {_READ_FROM_A_LOG} {_EPOCHS} "
        "UNSUPPORTED_COMPRESSION_TYPE CORRUPT_MESSAGE UNKNOWN_SERVER_ERROR UNKNOWN_TOPIC_ID "
        "FETCH_SESSION_TOPIC_ID_ERROR INCONSISTENT_TOPIC_ID",
        "OFFSET_NOT_AVAILABLE",
        {
            "UNKNOWN_TOPIC_ID": _BY_ID,
            "INCONSISTENT_TOPIC_ID": _BY_ID,
            "FETCH_SESSION_TOPIC_ID_ERROR": "no fetch session is made",
        },
        ours="REQUEST_TIMED_OUT MESSAGE_TOO_LARGE",
        place="metadata.md",
    ),
    "find_coordinator.md": Said(
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE GROUP_AUTHORIZATION_FAILED INVALID_REQUEST "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        never={"TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "only coordinators of groups are looked up"},
    ),
    "list_offsets.md": Said(
        f"UNSUPPORTED_FOR_MESSAGE_FORMAT REPLICA_NOT_AVAILABLE {_READ_FROM_A_LOG} {_EPOCHS} UNKNOWN_SERVER_ERROR "
        "LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE",
        "INVALID_REQUEST UNSUPPORTED_VERSION REQUEST_TIMED_OUT",
        place="metadata.md",
    ),
    "metadata.md": Said(
        "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED "
        "REPLICA_NOT_AVAILABLE",
        "LISTENER_NOT_FOUND UNKNOWN_TOPIC_ID INVALID_REQUEST",
        {"UNKNOWN_TOPIC_ID": _BY_ID, "INVALID_REQUEST": "each topic has a name"},
    ),
    "offset_commit.md": Said(
        f"UNKNOWN_TOPIC_OR_PARTITION REQUEST_TIMED_OUT OFFSET_METADATA_TOO_LARGE {_COORDINATOR} ILLEGAL_GENERATION "
        "UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED "
        "INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE GROUP_ID_NOT_FOUND STALE_MEMBER_EPOCH",
        "UNSUPPORTED_VERSION FENCED_INSTANCE_ID UNKNOWN_SERVER_ERROR UNKNOWN_TOPIC_ID",
        {"INVALID_PRODUCER_ID_MAPPING": _ALONE, "INVALID_TXN_STATE": _ALONE, "FENCED_INSTANCE_ID": _ALONE},
        place="find_coordinator.md",
    ),
    "offset_fetch.md": Said(
        "UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED UNSTABLE_OFFSET_COMMIT UNKNOWN_MEMBER_ID "
        f"STALE_MEMBER_EPOCH {_COORDINATOR}",
        "GROUP_ID_NOT_FOUND UNSUPPORTED_VERSION UNKNOWN_TOPIC_ID",
        place="find_coordinator.md",
    ),
    "offset_for_leader_epoch.md": Said(
        f"REPLICA_NOT_AVAILABLE {_READ_FROM_A_LOG} {_EPOCHS} UNKNOWN_SERVER_ERROR",
        "CLUSTER_AUTHORIZATION_FAILED",
        place="metadata.md",
    ),
}
