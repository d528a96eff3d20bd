"""Metrics as a StatsD server and an OpenTelemetry collector get them from Airflow, through its own settings."""

from __future__ import annotations

import atexit
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics.otel_logger import flush_otel_metrics
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry.metrics import get_meter_provider
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.operators.alerts import KafkaRetentionWatchOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor
from tests.integration.airflow.conftest import Commit, Context, Publish, Resolve, at
from tests.integration.conftest import MakeTopic, Produce

Received = Callable[[], dict[str, float]]
Series = tuple[str, frozenset[tuple[str, str]]]
"""A gauge's name and tags."""


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


class Collector:
    """What an OpenTelemetry collector takes over HTTP: the last value of each gauge."""

    def __init__(self) -> None:
        self._found: dict[Series, float] = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/metrics"
                collector.take(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, body: bytes) -> None:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.gauge.data_points:
                    tags = frozenset((tag.key, tag.value.string_value) for tag in point.attributes)
                    self._found[metric.name, tags] = point.as_double or point.as_int

    def read(self) -> dict[Series, float]:
        """All that was told so far."""
        get_meter_provider().force_flush()
        return dict(self._found)

    def close(self) -> None:
        atexit.unregister(flush_otel_metrics)  # nobody would hear it
        get_meter_provider().shutdown()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """One that Airflow is told of."""
    running = Collector()
    settings = {"OTEL_ON": "True", "OTEL_HOST": "127.0.0.1", "OTEL_PORT": str(running.port)}
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    yield running
    running.close()
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


class TestOpenTelemetry:
    def test_a_gauge_has_its_tags(self, ten: str, context: Context, commit: Commit, collector: Collector) -> None:
        group = f"{ten}.group"
        commit(group, ten, 4)
        KafkaGroupLagSensor(task_id="s", groups=group, topics=ten, max_lag=100, max_age=10**9).execute(context)
        by_group = ("group", group)
        by_topic = frozenset([by_group, ("topic", ten)])
        found = collector.read()
        assert found["airflow.kafka_offsets.lag", by_topic] == 6
        assert found["airflow.kafka_offsets.lag_total", frozenset([by_group])] == 6
        assert found["airflow.kafka_offsets.lag_age", by_topic] > 0
        ours = {name for name, _ in found if name.startswith("airflow.kafka_offsets.")}
        assert ours == {f"airflow.kafka_offsets.{name}" for name in ("lag", "lag_total", "lag_age")}, (
            "no name per group"
        )
        commit(group, ten, 10)
        KafkaGroupLagSensor(task_id="s", groups=group, topics=ten).execute(context)
        assert collector.read()["airflow.kafka_offsets.lag", by_topic] == 0


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
        watch: Any = KafkaRetentionWatchOperator(task_id="w", pipeline=KafkaPipeline("loads"))
        watch.execute(context)
        found = received()
        assert found["airflow.kafka_offsets.windows_behind.loads"] == 1
        assert "airflow.kafka_offsets.retention_headroom.loads" not in found, "nothing is ever deleted of this topic"
        publish(window)
        watch.execute(context)
        assert received()["airflow.kafka_offsets.windows_behind.loads"] == 0, "offsets after it are in no window yet"
        KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)
        found = received()
        assert found["airflow.kafka_offsets.window_records.loads"] == 5
        assert found["airflow.kafka_offsets.window_age.loads"] > 0
        assert "airflow.kafka_offsets.window_seconds.loads" in found

    def test_the_retention_watch_tells_how_long_there_is_left(
        self, topic: MakeTopic, produce: Produce, resolve: Resolve, context: Context, received: Received
    ) -> None:
        """By the broker's own retention.ms, which deletes nothing of the segment that is written to."""
        day_ms, now = 86_400_000, now_ms()
        name = topic(config={"retention.ms": str(day_ms)})
        produce(name, 0, [(now - age_ms, None, b"x") for age_ms in (day_ms // 2, 2_000)])
        resolve(name, iso_instant(now - day_ms), iso_instant(now - 1_000))
        KafkaRetentionWatchOperator(task_id="w", pipeline=KafkaPipeline("loads")).execute(context)
        headroom = received()["airflow.kafka_offsets.retention_headroom.loads"]
        assert 0 < headroom <= day_ms / 2000
