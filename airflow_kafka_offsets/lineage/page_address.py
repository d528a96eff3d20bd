"""Addresses of the page "Kafka windows", and of a window on it, below Airflow's own address."""

from __future__ import annotations

from urllib.parse import quote

PREFIX = "/kafka-windows"


def window_address(airflow: str, pipeline: str, window: str) -> str:
    """A window's address on the page.

    :param airflow: Airflow's own address, such as ``[api] base_url``.
    """
    return f"{airflow.rstrip('/')}{PREFIX}/#/p/{quote(pipeline, safe='')}/w/{quote(window, safe='')}"
