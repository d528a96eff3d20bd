"""Numbers for Airflow's own metrics, which go to StatsD or OpenTelemetry where Airflow is configured so.

Each is a gauge ``kafka_offsets.<name>`` with tags. Plain StatsD has no tags, so that it is told a second time with
their values in its name, as Airflow does with its own: ``kafka_offsets.lag.loader.flights``. What isn't known isn't
told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow.providers.common.compat.sdk import Stats

PREFIX = "kafka_offsets"
METRICS = {
    "lag": ("group", "topic"),
    "lag_total": ("group",),
    "lag_age": ("group",),
    "window_records": ("pipeline",),
    "window_seconds": ("pipeline",),
    "window_age": ("pipeline",),
    "windows_behind": ("pipeline",),
    "retention_headroom": ("pipeline",),
}
"""Names, each with its tags. Times are in seconds."""
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")

Measured = tuple[str, float, Mapping[str, str]]
"""Name, value and tags."""


def tell(measured: Iterable[Measured]) -> None:
    """Set gauges."""
    for name, value, tags in measured:
        full = f"{PREFIX}.{name}"
        Stats.gauge(full, value, tags=dict(tags))
        Stats.gauge(".".join([full, *(_REFUSED.sub("_", tags[tag]) for tag in METRICS[name])]), value)
