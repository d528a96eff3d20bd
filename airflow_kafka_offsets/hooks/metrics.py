"""Gauges for Airflow's own metrics, which go to StatsD or OpenTelemetry if Airflow is configured for it.

Each gauge is ``kafka_offsets.<name>`` with tags. Plain StatsD has no tags, so with StatsD each gauge is also sent with
the tags' values in its name, as Airflow does with its own metrics: ``kafka_offsets.lag.loader.flights``. With
OpenTelemetry it isn't, because each group would become a metric of its own. Unknown values are not sent.
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
    names_them = conf.getboolean("metrics", "statsd_on", fallback=False)  # Airflow prefers StatsD to OpenTelemetry
    for name, value, tags in measures:
        full = f"{PREFIX}.{name}"
        Stats.gauge(full, value, tags=dict(tags))
        if names_them:
            Stats.gauge(".".join([full, *(_REFUSED.sub("_", tags[tag]) for tag in METRICS[name])]), value)
