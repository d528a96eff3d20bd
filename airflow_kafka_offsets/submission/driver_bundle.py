"""The bundle: the parts of this package that a Spark driver needs, as a small zip.

Normally spark-submit brings Python files to the driver, and the bundle is one of ``--py-files``. It doesn't for drivers
on a standalone cluster's own workers: there, application and bundle are one file (:func:`application_bundle`).
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import airflow_kafka_offsets
from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, uri_for_spark
from airflow_kafka_offsets.offsets.windows.ledger_names import DRIVERS

_PACKAGE = Path(airflow_kafka_offsets.__file__).parent
_SHIPPED = (
    *("__init__.py", "errors.py", "offsets/**/*.py", "spark/**/*.py"),
    *(f"compat/{name}.py" for name in ("__init__", "python_versions", "spark_versions")),
)
"""Nothing that imports Airflow or kafka-python: a Spark cluster has neither."""

PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
"""Spark's class that runs a Python file, or a zip with a ``__main__``, beside a driver."""
STARTER = _PACKAGE / "spark" / "verified_start.py"
"""What runs a stored bundle after checking its bytes."""
BUNDLE_NAME = "airflow_kafka_offsets.zip"
LOAD_APPLICATION = str(_PACKAGE / "spark" / "load.py")
"""The ready-made application, for ``spark-submit``."""


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


def application_bundle(application: str, py_files: str | None) -> bytes:
    """An application, its Python files and the bundle as one zip, which Python runs like a script. The same files give
    the same bytes.

    :param application: path of a ``.py`` file on this machine; it becomes the zip's ``__main__``.
    :param py_files: comma-separated paths of ``.py``, ``.zip`` and ``.egg`` files on this machine.
    :raises ConfigurationError: for a file that isn't here or is of another kind.
    """
    places = filter(None, map(str.strip, (py_files or "").split(",")))
    extra = chain.from_iterable(map(_python_files, places))
    return _zipped([*_package_files(), *extra, ("__main__.py", _local(application).read_bytes())])


def stored_bundle(ledger: Ledger, content: bytes) -> str:
    """Store a bundle in the ledger, where the driver can reach it. Returns its URI."""
    return stored(ledger.folder / DRIVERS / f"{short_hash(content)}.jar", content)


def short_hash(content: bytes) -> str:
    """The part of a stored file's path that identifies its content."""
    return hashlib.sha256(content).hexdigest()[:16]


def stored(place: StoragePath, content: bytes, s3_scheme: str = "s3a") -> str:
    """Store a file once, in a place named by :func:`short_hash`. Returns its URI, with S3 spelled as its reader needs
    it: ``s3a`` for Hadoop. A LedgerCorruptError if the place has other content."""
    if not create_exclusive(place, content):
        raise LedgerCorruptError(
            f"{place} doesn't have the content that its name says. Delete it; the next try writes it again."
        )
    uri = uri_for_spark(place)
    return uri.replace("s3://", f"{s3_scheme}://", 1) if uri.startswith("s3://") else uri


def start_arguments(uri: str, content: bytes) -> list[str]:
    """The arguments for :data:`PYTHON_RUNNER` that run a stored bundle if it still has these bytes.

    It runs ``python3 <first> <third and on>``: with ``-c`` as the first argument, the third is the program's text. The
    worker has fetched the bundle from ``uri`` into the folder that Python starts in.
    """
    return ["-c", "", STARTER.read_text(encoding="utf-8"), uri.rpartition("/")[2], hashlib.sha256(content).hexdigest()]


def _package_files() -> Iterator[tuple[str, bytes]]:
    for pattern in _SHIPPED:
        for source in sorted(_PACKAGE.glob(pattern)):
            yield str(source.relative_to(_PACKAGE.parent)), source.read_bytes()


def _python_files(place: str) -> Iterator[tuple[str, bytes]]:
    path = _local(place)
    if path.suffix == ".py":
        yield path.name, path.read_bytes()
        return
    if not zipfile.is_zipfile(path):
        raise ConfigurationError(f"{place} is neither a .py file nor a zip of Python modules.")
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():  # folders too: Python needs them to find packages without __init__.py
            yield name, archive.read(name)


def _local(place: str) -> Path:
    path = Path(place.removeprefix("file://"))
    if not path.is_file():
        raise ConfigurationError(
            f"{place} is not a file on this worker. On a standalone cluster in cluster deploy mode the worker sends "
            "the application and its Python files to the cluster as one: give paths on the worker."
        )
    return path


def _zipped(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Zip without timestamps, so that the bytes depend on the content alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in dict(files).items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
