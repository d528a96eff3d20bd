"""What Kafka says. The only code that imports ``kafka``; start reading at :mod:`.offsets_client`.

``offsets_client`` combines requests into calls. Each request has a module that builds it, parses its response, and does
the thin I/O in between, given a ``session``. ``fan_out`` retries a request piece by piece. ``metadata`` and
``coordinators`` say which broker to ask about a piece. ``transport`` holds the connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_kafka_offsets.public import offered

if TYPE_CHECKING:
    from airflow_kafka_offsets.client.codec import (
        LIST_OFFSETS as LIST_OFFSETS,
        OFFSET_FETCH as OFFSET_FETCH,
        Header as Header,
    )
    from airflow_kafka_offsets.client.connection.settings import ClientSettings as ClientSettings
    from airflow_kafka_offsets.client.offsets_client import OffsetsClient as OffsetsClient
    from airflow_kafka_offsets.offsets.answers.groups import (
        CommittedOffset as CommittedOffset,
        CommittedOffsets as CommittedOffsets,
        GroupDescription as GroupDescription,
        GroupDescriptions as GroupDescriptions,
        GroupOffsets as GroupOffsets,
        ShareOffset as ShareOffset,
    )
    from airflow_kafka_offsets.offsets.answers.listed_offsets import (
        ListedOffset as ListedOffset,
        ListedOffsets as ListedOffsets,
        ListOutcome as ListOutcome,
    )
    from airflow_kafka_offsets.offsets.answers.logs import (
        EpochEnd as EpochEnd,
        LogEpoch as LogEpoch,
        LogExtent as LogExtent,
        LogExtents as LogExtents,
        PartitionProducers as PartitionProducers,
        SegmentOffsets as SegmentOffsets,
        TopicFacts as TopicFacts,
    )
    from airflow_kafka_offsets.offsets.answers.records import (
        FirstRecord as FirstRecord,
        FirstRecords as FirstRecords,
        LogContents as LogContents,
        ReadPosition as ReadPosition,
    )
    from airflow_kafka_offsets.offsets.lag import (
        GroupLag as GroupLag,
        GroupLags as GroupLags,
        LagStatus as LagStatus,
        PartitionLag as PartitionLag,
    )
    from airflow_kafka_offsets.offsets.partitions import LogRange as LogRange, TopicPartition as TopicPartition
    from airflow_kafka_offsets.offsets.specs import IsolationLevel as IsolationLevel, OffsetSpec as OffsetSpec

__getattr__, __all__ = offered("airflow_kafka_offsets.client")
