"""Where the page "Kafka windows" is below Airflow's own address, and where on it a window is."""

from __future__ import annotations

from urllib.parse import quote

PREFIX = "/kafka-windows"


def window_address(airflow: str, pipeline: str, window: str) -> str:
    """A window's address on the page.

    :param airflow: Airflow's own address, as ``[api] base_url`` has it.
    """
    return f"{airflow.rstrip('/')}{PREFIX}/#/p/{quote(pipeline, safe='')}/w/{quote(window, safe='')}"
