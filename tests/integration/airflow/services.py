"""A whole Airflow for all integration tests that ask for it: services as processes, one start a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.airflow_services import AirflowServices


@pytest.fixture(scope="session")
def airflow_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServices]:
    """The services of this session. Tests write Dag files of their own into ``dags_folder``, each Dag id once.

    Modules below the repository's root, such as a test's own trigger classes, can be imported by all services.
    """
    home: Path = tmp_path_factory.mktemp("airflow-services")
    with AirflowServices(home) as running:
        yield running
