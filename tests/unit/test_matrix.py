"""What a combination's result depends on: any change of it builds the wheel again, and runs the combinations again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dev import ROOT, matrix_environments

READ = ("airflow_kafka_offsets", "dags", "dev", "pyproject.toml", "README.md")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the matrix may read, in place of the repository."""
    for name in READ:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(matrix_environments, "ROOT", tmp_path)
    return tmp_path


class TestPackageHash:
    @pytest.mark.parametrize(
        "name",
        [
            "airflow_kafka_offsets/page/app.py",
            "airflow_kafka_offsets/page/static/page.js",
            "airflow_kafka_offsets/page/static/page.css",
            "airflow_kafka_offsets/page/static/index.html",
            "airflow_kafka_offsets/client/requests/messages/ConsumerGroupDescribeRequest.json",
            "airflow_kafka_offsets/py.typed",
            "dags/flights_daily.py",
            "dags/jobs/flights_per_hour.py",
            "dags/.airflowignore",
            "dev/matrix.py",
            "dev/flights.py",
            "dev/spark_cluster.py",
            "dev/airflow_home.py",
            "dev/constraints.txt",
            "dev/fault_relay/wire.py",
            "pyproject.toml",
        ],
    )
    def test_follows_every_file_that_the_matrix_needs(self, repository: Path, name: str) -> None:
        before = matrix_environments.package_hash()
        with (repository / name).open("a") as file:
            file.write("\n")
        assert matrix_environments.package_hash() != before

    def test_is_the_same_after_python_has_compiled_the_package(self, repository: Path) -> None:
        """And after the matrix has written its table into the README."""
        before = matrix_environments.package_hash()
        compiled = repository / "airflow_kafka_offsets" / "__pycache__"
        compiled.mkdir(exist_ok=True)
        (compiled / "new.cpython-311.pyc").write_bytes(b"compiled")
        (repository / "README.md").write_text("another table")
        assert matrix_environments.package_hash() == before
