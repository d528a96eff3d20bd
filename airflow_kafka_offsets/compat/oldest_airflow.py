"""The oldest Airflow that the package works with. pip refuses to install it beside an older one, unless it is told not
to look (``--no-deps``)."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from airflow_kafka_offsets.errors import ConfigurationError

OLDEST = (3, 1)


def require_airflow(found: str | None = None) -> None:
    """Refuse an Airflow that is too old, by default the one that is installed, before an import fails of what it
    lacks."""
    found = found or _installed()
    if found is None:
        return
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigurationError(
            f"airflow-kafka-offsets needs Airflow {oldest} or newer, and this is {found}: upgrade it."
        )


def _installed() -> str | None:
    """None where it wasn't installed as a package, and nobody can tell."""
    for package in ("apache-airflow-core", "apache-airflow"):  # the second before Airflow 3.0
        with suppress(PackageNotFoundError):
            return version(package)
    return None
