"""What a submitter passes on, and where its cluster reads Python files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError
from airflow_kafka_offsets.ledger.storage import LedgerPath
from airflow_kafka_offsets.references import WindowRef, WindowRefs
from airflow_kafka_offsets.submission.prepared_load import ClusterFiles, PreparedLoad, Program

REF = WindowRef("file:///k", "p", "w", "file:///k/p/windows/w/00.json", "00", 10, 1, 3, "kafka_default")
LOAD = PreparedLoad(
    WindowRefs((REF,), is_list=False),
    [7],
    True,
    {"spark.a": "it's one"},
    Program("s3://app.py", ["s3://b.zip"], [], ["--output", "x"]),
)


class TestPreparedLoad:
    def test_is_read_as_it_was_written(self) -> None:
        assert PreparedLoad.from_json(json.loads(json.dumps(LOAD.to_json()))) == LOAD

    @pytest.mark.parametrize("fields", [None, {}, "text", {"version": 9}, LOAD.to_json() | {"ref": {}}])
    def test_nothing_else_is(self, fields: Any) -> None:
        with pytest.raises(ConfigurationError, match="what KafkaPrepareLoadOperator returned"):
            PreparedLoad.from_json(fields)


class TestClusterFiles:
    @pytest.fixture
    def files(self, tmp_path: Path) -> ClusterFiles:
        return ClusterFiles(UPath(tmp_path / "drivers"))

    def test_the_bundle_is_stored_once(self, files: ClusterFiles, tmp_path: Path) -> None:
        assert files.bundle() == files.bundle()
        (stored,) = (tmp_path / "drivers").rglob("*.zip")
        assert files.bundle() == stored.as_uri()
        assert zipfile.ZipFile(io.BytesIO(stored.read_bytes())).testzip() is None

    def test_a_file_lies_in_a_folder_named_by_its_content(self, files: ClusterFiles, tmp_path: Path) -> None:
        job = tmp_path / "job.py"
        job.write_text("a = 1")
        first = files.python_file(str(job))
        job.write_text("a = 2")
        assert files.python_file(f"file://{job}") != first
        assert Path(first.removeprefix("file://")).read_text() == "a = 1"

    def test_a_uri_is_passed_on(self, files: ClusterFiles) -> None:
        assert files.python_file("s3a://jobs/app.py") == "s3a://jobs/app.py"

    def test_another_file_of_that_name_is_not_run(self, files: ClusterFiles, tmp_path: Path) -> None:
        files.bundle()
        (stored,) = (tmp_path / "drivers").rglob("*.zip")
        stored.write_bytes(b"swapped")
        with pytest.raises(LedgerCorruptError, match="doesn't have the content that its name says"):
            files.bundle()

    @pytest.mark.parametrize("scheme", ["s3", "s3a"])
    def test_uris_spell_s3_as_the_folder_does(self, tmp_path: Path, scheme: str) -> None:
        """As EMR does, or as plain Hadoop."""
        plain = LedgerPath.of(UPath(tmp_path))
        folder = LedgerPath(plain.fs, plain.path, scheme, f"{scheme}://conn@lake/drivers")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.submission.confs.create_exclusive", lambda *_: True)
            uri = ClusterFiles(folder).bundle()
        assert uri.startswith(f"{scheme}://lake/drivers/")
