"""Measures: numbers that people watch, such as a group's lag, under the names of their metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

METRICS = {
    "lag": ("group", "topic"),
    "lag_total": ("group",),
    "lag_age": ("group", "topic"),
    "window_records": ("pipeline",),
    "window_seconds": ("pipeline",),
    "window_age": ("pipeline",),
    "windows_behind": ("pipeline",),
    "retention_headroom": ("pipeline",),
}
"""Metric names and their tags. Times are in seconds."""


class Measure(NamedTuple):
    """A number that people watch.

    :param name: one of :data:`METRICS`.
    :param value: the number; a time is in seconds.
    :param tags: what is measured: values of the metric's tags.
    """

    name: str
    value: float
    tags: Mapping[str, str]
