"""Alert when a consumer group is too far behind, stuck, or rewound, by the rules of Burrow.

Every five minutes a sample is kept in the state of an asset; the last ten tell whether the group gets on. What the
alert is made of is the callback: replace ``alert`` by one of Airflow's notifiers.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Asset, Context, CronTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.consumer_status import ConsumerStatus, Sample, judge_partition

GROUP = "flights-reader"
MOST_LAG = 1_000_000
SAMPLES = 10

history = Asset("flights_reader_lag")


def alert(context: Context) -> None:
    """Tell somebody."""
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
        """Measure, remember, judge; fail with what is wrong."""
        with KafkaOffsetsHook().get_conn() as client:
            (lag,) = client.group_lags([GROUP]).raise_for_errors()
        kept = asset_state_store[history].get("samples") or {}
        worst = ConsumerStatus.OK
        samples: dict[str, list[list[int]]] = {}
        for each in lag.partitions.raise_for_errors():
            name = f"{each.topic}-{each.partition}"
            end = each.last_stable_offset
            if each.committed_offset is not None and end is not None:
                samples[name] = [*kept.get(name, []), [each.committed_offset, end]][-SAMPLES:]
                worst = max(worst, judge_partition([Sample(*one) for one in samples[name]]))
        asset_state_store[history].set("samples", samples)
        if worst > ConsumerStatus.OK or lag.total is None or lag.total > MOST_LAG:
            raise AirflowFailException(f"group {GROUP} is {worst.name.lower()}, {lag.total} behind")
        return {"group": GROUP, "lag": lag.total, "status": worst.name}

    check_group()
