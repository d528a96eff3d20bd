"""Alert when a consumer group is too far behind, stuck, or rewound, by the rules of Burrow.

Every five minutes, a sample is stored in the state of an asset; the last ten tell whether the group makes progress. The
callback sends the alert: replace ``alert`` with one of Airflow's notifiers.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Asset, Context, task
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.groups.consumer_status import ConsumerStatus, Sample, judge_partition
from airflow_kafka_offsets.offsets.groups.lag import GroupLag
from airflow_kafka_offsets.offsets.partitions import TopicPartition

GROUP = "flights-reader"
MOST_LAG = 1_000_000
SAMPLES, LEAST = 10, 3
"""How many samples of each partition to keep, and how many are needed to judge it."""

history = Asset("flights_reader_lag")


def samples_of(lag: GroupLag) -> dict[TopicPartition, Sample]:
    """Commit and log end of each partition; the commit counts as 0 if there are records but nothing was committed."""
    return {
        TopicPartition(each.topic, each.partition): Sample(each.committed_offset or 0, each.last_stable_offset)
        for each in lag.partitions.raise_for_errors()
        if each.last_stable_offset is not None
        and (each.committed_offset is not None or each.log_start_offset != each.last_stable_offset)
    }


def judge(samples: list[Sample]) -> ConsumerStatus:
    """The group's status on a partition; too few samples only tell whether it was rewound."""
    status = judge_partition(samples)
    return status if len(samples) >= LEAST or status is ConsumerStatus.REWOUND else ConsumerStatus.OK


def alert(context: Context) -> None:
    """Send the alert; here, log it."""
    logging.getLogger(__name__).error("Kafka: %s", context.get("exception"))


with DAG(
    dag_id="lag_alert",
    schedule=CronTriggerTimetable("*/5 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["kafka-offsets"],
):

    @task(outlets=[history], on_failure_callback=alert)
    def check_group(asset_state_store: Any = None) -> dict[str, Any]:
        """Measure the lag, store the samples, and judge them; fail if something is wrong."""
        with KafkaOffsetsHook().get_conn() as client:
            # Offsets that a consumer can't read (transaction markers, aborted records) don't count as lag here.
            progress = GroupsCaughtUp(groups=(GROUP,), max_lag=0).check(client)
            (lag,) = client.group_lags([GROUP]).raise_for_errors()
        kept = asset_state_store[history].get("samples") or {}
        samples = {
            str(partition): [*kept.get(str(partition), []), list(sample)][-SAMPLES:]
            for partition, sample in samples_of(lag).items()
        }
        asset_state_store[history].set("samples", samples)
        judged = [judge([Sample(*one) for one in each]) for each in samples.values()]
        status = ConsumerStatus.OK if progress.done else max(judged, default=ConsumerStatus.OK)
        if status > ConsumerStatus.OK:
            raise AirflowFailException(f"{progress.summary} ({status.name})")
        if progress.remaining is None or progress.remaining > MOST_LAG:
            raise AirflowFailException(f"{progress.summary} (more than {MOST_LAG})")
        return {"group": GROUP, "lag": progress.remaining, "status": status.name}

    check_group()
