"""The bundle: the part of this package that a Spark driver needs, as a small zip for ``--py-files``."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import airflow_kafka_offsets

_PACKAGE = Path(airflow_kafka_offsets.__file__).parent
_SHIPPED = ("__init__.py", "errors.py", "local_file.py", "offsets/*.py", "spark/*.py")
"""Nothing that imports Airflow or kafka-python: a Spark cluster has neither."""

LOAD_APPLICATION = str(_PACKAGE / "spark" / "load.py")
"""The ready-made application, for ``spark-submit``."""


@contextmanager
def driver_bundle() -> Iterator[str]:
    """Build the zip, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="airflow_kafka_offsets_") as folder:
        target = Path(folder) / "airflow_kafka_offsets.zip"
        write_bundle(target)
        yield str(target)


def write_bundle(target: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for pattern in _SHIPPED:
            for source in sorted(_PACKAGE.glob(pattern)):
                bundle.write(source, source.relative_to(_PACKAGE.parent))
