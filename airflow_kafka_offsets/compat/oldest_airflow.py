"""The oldest Airflow that the package works with. pip refuses to install it beside an older one, unless it is told not
to look (``--no-deps``)."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from airflow_kafka_offsets.errors import ConfigurationError

OLDEST = (3, 1)


def require_airflow(found: str | None = None) -> None:
    """Refuse an Airflow that is too old, before an import fails of what it lacks.

    :param found: its version; None for what is installed.
    :raises ConfigurationError: naming both versions.
    """
    found = found or _installed()
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigurationError(
            f"airflow-kafka-offsets needs Airflow {oldest} or newer, and this is {found}: upgrade it."
        )


def _installed() -> str:
    try:
        return version("apache-airflow-core")
    except PackageNotFoundError:  # before Airflow 3.0
        return version("apache-airflow")
