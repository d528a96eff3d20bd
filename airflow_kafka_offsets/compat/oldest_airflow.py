"""The oldest Airflow that the package works with. pip doesn't install the package beside an older one, except with
``--no-deps``."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from airflow_kafka_offsets.errors import ConfigurationError

OLDEST = (3, 1)


def require_airflow(found: str | None = None) -> None:
    """Refuse an Airflow that is too old, by default the installed one, before an import fails because of it."""
    found = found or _installed()
    if found is None:
        return
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigurationError(
            f"airflow-kafka-offsets needs Airflow {oldest} or newer, but this is {found}: upgrade it."
        )


def _installed() -> str | None:
    """The installed version; None if Airflow isn't installed as a package."""
    for package in ("apache-airflow-core", "apache-airflow"):  # the latter before Airflow 3.0
        with suppress(PackageNotFoundError):
            return version(package)
    return None
