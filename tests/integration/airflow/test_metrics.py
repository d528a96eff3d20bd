"""Metrics as a StatsD server gets them from Airflow, through its own settings."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_kafka_offsets.operators.retention_watch import KafkaRetentionWatchOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.group_lag import KafkaGroupLagSensor
from tests.integration.airflow.conftest import Commit, Context, Publish, Resolve, at

Received = Callable[[], dict[str, float]]


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    """A StatsD server, which Airflow is told of: the last value of each gauge."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(1)
        settings = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(server.getsockname()[1])}
        for name, value in settings.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)

        def read() -> dict[str, float]:
            found = {}
            try:
                while True:
                    for line in server.recv(65536).decode().splitlines():
                        name, _, value = line.partition(":")
                        found[name] = float(value.partition("|")[0])
            except TimeoutError:
                return found

        yield read
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


class TestStatsD:
    def test_a_sensor_tells_lag_by_group_and_topic(
        self, ten: str, context: Context, commit: Commit, received: Received
    ) -> None:
        group = f"{ten}.group"
        commit(group, ten, 4)
        sensor = KafkaGroupLagSensor(task_id="s", groups=group, topics=ten, max_lag=100, max_age=10**9)
        sensor.execute(context)
        named, found = group.replace(".", "_"), received()
        assert found[f"airflow.kafka_offsets.lag.{named}.{ten}"] == 6
        assert found[f"airflow.kafka_offsets.lag_total.{named}"] == 6
        assert found[f"airflow.kafka_offsets.lag_age.{named}.{ten}"] > 0
        commit(group, ten, 10)
        KafkaGroupLagSensor(task_id="s", groups=group, topics=ten, max_age=1).execute(context)
        found = received()
        assert found[f"airflow.kafka_offsets.lag.{named}.{ten}"] == 0
        assert found[f"airflow.kafka_offsets.lag_age.{named}.{ten}"] == 0

    def test_verify_and_the_retention_watch_tell_of_windows(
        self, ten: str, resolve: Resolve, publish: Publish, context: Context, received: Received
    ) -> None:
        window = resolve(ten, at(2), at(7))
        watch: Any = KafkaRetentionWatchOperator(task_id="w", pipeline="loads")
        watch.execute(context)
        assert received()["airflow.kafka_offsets.windows_behind.loads"] >= 1
        publish(window)
        KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)
        found = received()
        assert found["airflow.kafka_offsets.window_records.loads"] == 5
        assert found["airflow.kafka_offsets.window_age.loads"] > 0
        assert "airflow.kafka_offsets.window_seconds.loads" in found
