"""The bundle: the rooms of this package that a Spark driver needs, as a small zip, one of ``--py-files``.

Among them is the ledger: the driver reads the log with the same code as Airflow's side. What a driver imports needs
nothing but the standard library, and PySpark where it runs Spark.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import airflow_kafka_offsets

_PACKAGE = Path(airflow_kafka_offsets.__file__).parent
_SHIPPED = (
    *("__init__.py", "public.py", "errors.py", "arguments.py"),
    *(f"{room}/**/*.py" for room in ("compat", "ledger", "offsets", "spark")),
)
"""Whole rooms: what the driver's side imports is always among them. It imports neither Airflow nor kafka-python nor
fsspec, which a Spark cluster doesn't have."""
BUNDLE_NAME = "airflow_kafka_offsets.zip"
LOAD_APPLICATION = str(_PACKAGE / "spark" / "load.py")
"""The ready-made application, for ``spark-submit``."""
AUDIT_APPLICATION = str(_PACKAGE / "spark" / "audit_table.py")
"""The ready-made audit."""


@contextmanager
def driver_bundle() -> Iterator[str]:
    """Build the zip, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="airflow_kafka_offsets_") as folder:
        target = Path(folder) / BUNDLE_NAME
        target.write_bytes(bundle())
        yield str(target)


def bundle() -> bytes:
    """The zip. The same files give the same bytes."""
    return _zipped(_package_files())


def _package_files() -> Iterator[tuple[str, bytes]]:
    for pattern in _SHIPPED:
        for source in sorted(_PACKAGE.glob(pattern)):
            yield str(source.relative_to(_PACKAGE.parent)), source.read_bytes()


def _zipped(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Zip without timestamps, so that the bytes depend on the content alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in dict(files).items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
