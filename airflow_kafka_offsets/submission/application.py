"""The ready-made applications that a driver runs; and the bundle, the rooms of this package that a driver needs, as a
small zip, one of ``--py-files``.

Among them is the ledger: the driver reads the log with the same code as Airflow's side. What a driver imports needs
nothing but the standard library, and PySpark where it runs Spark.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Iterator
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
    """The zip. The same files give the same bytes, as they have no timestamps."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in (each for pattern in _SHIPPED for each in sorted(_PACKAGE.glob(pattern))):
            name = zipfile.ZipInfo(str(source.relative_to(_PACKAGE.parent)))
            archive.writestr(name, source.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
