"""The application as one file, for a driver on a standalone cluster's worker."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.submission.driver_bundle import (
    LOAD_APPLICATION,
    application_bundle,
    start_arguments,
    stored_bundle,
)

APPLICATION = """
import sys
import module_in_file, package_in_zip.module
from airflow_kafka_offsets.spark.session.conf import MANIFEST
print(module_in_file.NAME, package_in_zip.module.NAME, sys.argv[1:], MANIFEST)
"""


class TestApplicationBundle:
    def test_python_runs_it_with_the_package_and_the_users_own_files_and_nothing_else_installed(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "app.py").write_text(APPLICATION)
        (tmp_path / "module_in_file.py").write_text("NAME = 'file'")
        with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
            archive.writestr("package_in_zip/", "")
            archive.writestr("package_in_zip/module.py", "NAME = 'zip'")
        py_files = f"{tmp_path}/module_in_file.py, {tmp_path}/more.zip"
        bundle = tmp_path / "bundle.jar"
        bundle.write_bytes(application_bundle(str(tmp_path / "app.py"), py_files))

        command = [sys.executable, "-I", "-S", str(bundle), "--output", "x"]
        answer = subprocess.run(command, cwd="/", capture_output=True, text=True)
        assert answer.stdout == "file zip ['--output', 'x'] spark.kafkaOffsets.manifest\n", answer.stderr

    def test_all_of_it_runs_on_python_3_10(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(io.BytesIO(application_bundle(LOAD_APPLICATION, None))) as archive:
            archive.extractall(tmp_path)
        vermin = [
            Path(sys.executable).with_name("vermin"),
            "--target=3.10-",
            "--no-tips",
            "--violations",
            str(tmp_path),
        ]
        found = subprocess.run(vermin, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout
        assert "Minimum required versions: 3.10" in found.stdout

    def test_the_same_application_gives_the_same_bytes(self) -> None:
        assert application_bundle(LOAD_APPLICATION, None) == application_bundle(f"file://{LOAD_APPLICATION}", "")

    @pytest.mark.parametrize("application", ["s3a://jobs/app.py", "/nowhere/app.py"])
    def test_an_application_that_is_not_on_the_worker_is_refused(self, application: str) -> None:
        with pytest.raises(ConfigurationError, match="is not a file on this worker"):
            application_bundle(application, None)

    def test_a_file_that_holds_no_python_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        with pytest.raises(ConfigurationError, match=r"notes\.txt is neither"):
            application_bundle(LOAD_APPLICATION, str(tmp_path / "notes.txt"))


class TestStoredBundle:
    def test_it_is_kept_once_under_a_name_of_its_content(self, tmp_path: Path) -> None:
        ledger = Ledger(ObjectStoragePath(tmp_path.as_uri()), "orders")
        uri = stored_bundle(ledger, b"one")

        assert uri == stored_bundle(ledger, b"one") != stored_bundle(ledger, b"two")
        assert uri.startswith(f"file://{tmp_path}/orders/drivers/")
        assert Path(uri.removeprefix("file://")).read_bytes() == b"one"

    @pytest.mark.parametrize("moment", ["as it was", "swapped"])
    def test_it_is_run_as_it_was_submitted_or_not_at_all(self, tmp_path: Path, moment: str) -> None:
        """As Spark's PythonRunner does it, in the folder that the worker has fetched the file to."""
        (tmp_path / "app.py").write_text("import sys\nprint('ours', sys.argv[1:])")
        content = application_bundle(str(tmp_path / "app.py"), None)
        first, _, *others = start_arguments("s3a://ledger/orders/drivers/12ab.jar", content)
        (tmp_path / "theirs.py").write_text("print('theirs')")
        swapped = application_bundle(str(tmp_path / "theirs.py"), None)
        (tmp_path / "12ab.jar").write_bytes(content if moment == "as it was" else swapped)
        (tmp_path / "hashlib.py").write_text("print('theirs')")
        # What it does for the executors needs a JVM: tests/integration/spark/cluster has one.
        others[0] = others[0].replace("    give_to_executors(application)\n", "")

        command = [sys.executable, first, *others, "--output", "x"]
        answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert "theirs" not in answer.stdout
        if moment == "as it was":
            assert answer.stdout == "ours ['--output', 'x']\n", answer.stderr
        else:
            assert answer.returncode == 1
            assert "12ab.jar was changed after it was submitted" in answer.stderr

    def test_another_file_of_that_name_is_not_run(self, tmp_path: Path) -> None:
        ledger = Ledger(ObjectStoragePath(tmp_path.as_uri()), "orders")
        Path(stored_bundle(ledger, b"one").removeprefix("file://")).write_bytes(b"other")
        with pytest.raises(LedgerCorruptError, match="doesn't have the content that its name says"):
            stored_bundle(ledger, b"one")
