"""Pre-flight check: asks Kafka, before a Spark cluster starts, whether a pinned window can still be read exactly."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TypeVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import DataLossError, KafkaOffsetsError, shorten
from airflow_kafka_offsets.offsets.answers.logs import LogExtents
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.kafka_source import ends_seen
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy
from airflow_kafka_offsets.offsets.windows.truncation import RESTART, refuse_shorter
from airflow_kafka_offsets.pipelines.log_changes import of_same_topics

K = TypeVar("K")


def lost_of_each(
    client: OffsetsClient, manifests: Mapping[K, Manifest], on_data_loss: DataLossPolicy = "fail"
) -> dict[K, tuple[LogRange, ...] | KafkaOffsetsError]:
    """What Kafka no longer has of each window, exactly: empty for one that can be read as it was pinned. All are asked
    about in the same few requests.

    :param on_data_loss: ``load_rest`` if the remaining records are to be loaded.
    :returns: for each, what is lost, or why it can't be loaded:

        - TopicChangedError for another cluster, or a topic that is missing or was re-created.
        - DataLossError when records are gone, and ``on_data_loss`` is ``fail``; names partitions and exact counts.
        - LogTruncatedError when the window ends past the end of a log.
        - OffsetsError when a partition can't be asked.
    :raises ClusterError: when no broker can be asked.
    """
    extents = client.log_extents(dict.fromkeys(chain(*map(_partitions, manifests.values()))))
    return of_same_topics(
        client, manifests, lambda each: lost_in(each, extents.of_keys(_partitions(each)), on_data_loss)
    )


def _partitions(manifest: Manifest) -> list[TopicPartition]:
    return [TopicPartition.of(each) for each in manifest.non_empty()]


def lost_in(manifest: Manifest, extents: LogExtents, on_data_loss: DataLossPolicy = "fail") -> tuple[LogRange, ...]:
    """What logs no longer have of a window. Raises what :func:`lost_of_each` returns.

    :param extents: where the logs of the window's non-empty ranges start and end now.
    """
    lost = _lost_ranges(manifest, extents)
    if lost and on_data_loss != "load_rest":
        raise DataLossError(
            f"{sum(loss.span for loss in lost)} of {manifest.span} offsets of window {manifest.window} are gone: "
            f"{shorten(map(str, lost))}. Retention or DeleteRecords removed them after the window was resolved. "
            "Nothing was read. on_data_loss='load_rest' loads the remaining records and records the loss."
        )
    _refuse_short_logs(manifest, extents)
    return tuple(lost)


def _lost_ranges(manifest: Manifest, extents: LogExtents) -> list[LogRange]:
    """The exact parts of the ranges below the log start offsets (S12)."""
    extents.raise_for_errors()
    lost = []
    for each in manifest.non_empty():
        extent = extents.lookup(each.topic, each.partition)
        assert extent is not None and extent.log_start_offset is not None
        end_offset = min(extent.log_start_offset, each.end_offset)
        if end_offset > each.start_offset:
            lost.append(each.log_range._replace(end_offset=end_offset))
    return lost


def _refuse_short_logs(manifest: Manifest, extents: LogExtents) -> None:
    """Refuse a window that ends past the end of a log; and, as an error that passes, the answer of a leader that is
    older than the one at the window's end."""
    ends = {TopicPartition.of(log): log.end_offset(manifest.isolation_level) or 0 for log in extents}
    committed = manifest.isolation_level is IsolationLevel.READ_COMMITTED
    hint = " Or an open transaction holds back its last stable offset: then try again later." if committed else ""
    refuse_shorter(
        manifest.title, ends_seen(manifest), ends, extents.leader_epoch, f"Nothing was read. {RESTART}{hint}"
    )
