"""The messages of the golden frames (:mod:`dev.golden_frames`), in the terms of Kafka's schemas.

A message is written once, with the fields of all its versions; each version takes the fields that it has. If two ranges
of versions need different messages (one group or several, names or ids), each is here with its range.
"""

from __future__ import annotations

from dev.golden_messages.group_offsets import GROUP_OFFSET_MESSAGES
from dev.golden_messages.groups import GROUP_MESSAGES
from dev.golden_messages.leader_epochs import OFFSET_FOR_LEADER_EPOCH
from dev.golden_messages.message import Fields, Message
from dev.golden_messages.topics import TOPIC_MESSAGES

MESSAGES: tuple[Message, ...] = (*TOPIC_MESSAGES, *GROUP_OFFSET_MESSAGES, *GROUP_MESSAGES, *OFFSET_FOR_LEADER_EPOCH)

__all__ = ["MESSAGES", "Fields", "Message"]
