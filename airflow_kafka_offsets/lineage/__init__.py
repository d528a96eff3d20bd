"""A window in links, asset events and OpenLineage; and its address on the page "Kafka windows"."""

from __future__ import annotations

from urllib.parse import quote

PREFIX = "/kafka-windows"
"""Where the page is, below Airflow's own address."""


def window_address(airflow: str, pipeline: str, window: str) -> str:
    """A window's address on the page.

    :param airflow: Airflow's own address, such as ``[api] base_url``.
    """
    return f"{airflow.rstrip('/')}{PREFIX}/#/p/{quote(pipeline, safe='')}/w/{quote(window, safe='')}"
