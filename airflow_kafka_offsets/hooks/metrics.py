"""Numbers for Airflow's own metrics, which go to StatsD or OpenTelemetry where Airflow is configured so.

Each is a gauge ``kafka_offsets.<name>`` with tags. Plain StatsD has no tags, so that it is told a second time with
their values in its name, as Airflow does with its own: ``kafka_offsets.lag.loader.flights``. Others aren't: each
group would be another metric there. What isn't known isn't told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow.providers.common.compat.sdk import Stats, conf

from airflow_kafka_offsets.offsets.measures import METRICS, Measure

PREFIX = "kafka_offsets"
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")


def tell(measures: Iterable[Measure]) -> None:
    """Set gauges."""
    names_them = conf.getboolean("metrics", "statsd_on", fallback=False)  # which Airflow takes before OpenTelemetry
    for name, value, tags in measures:
        full = f"{PREFIX}.{name}"
        Stats.gauge(full, value, tags=dict(tags))
        if names_them:
            Stats.gauge(".".join([full, *(_REFUSED.sub("_", tags[tag]) for tag in METRICS[name])]), value)
