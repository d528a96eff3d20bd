"""Spark's classes in an archive: made by the second load of a machine, and used by those after it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pyspark
import pytest

from airflow_kafka_offsets.submission.quick_java import FAST_COMPILER, ClassArchive, quick_java
from airflow_kafka_offsets.submission.spark_program import SparkProgram
from dev.java import java_home

SPARK = Path(pyspark.__file__).parent
JAVA = java_home()
assert JAVA is not None
PROGRAM = SparkProgram(env_vars={"SPARK_HOME": str(SPARK), "JAVA_HOME": str(JAVA)})
SOME_CLASS = "org.apache.hadoop.util.VersionInfo"
"""Among Spark's own jars; it prints a version, and ends."""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "jars"


def run(options: str) -> str:
    """What a Java with these options prints that runs some class of Spark's jars, and where it has that from."""
    tells = ["-Xlog:class+load=info:stdout", "-cp", f"{SPARK}/jars/*", SOME_CLASS]
    command = [f"{JAVA}/bin/java", *options.split(), *tells]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    return next(line for line in ended.stdout.splitlines() if f" {SOME_CLASS} source:" in line)


def loaded(kept: Path) -> str:
    """A driver's start and end. Returns where it had its classes from."""
    with quick_java(PROGRAM, kept) as options:
        assert options.startswith(FAST_COMPILER)
        return run(options)


def seen(kept: Path) -> None:
    """A machine's first load, whatever its driver does."""
    with quick_java(PROGRAM, kept) as options:
        assert options == FAST_COMPILER


class TestLoadsOfAMachine:
    def test_the_second_one_makes_an_archive_and_the_later_ones_use_it(self, kept: Path) -> None:
        first, second, third, fourth = (loaded(kept) for _ in range(4))
        assert ["jars/hadoop" in source for source in (first, second)] == [True, True]
        assert ["shared objects file (top)" in source for source in (third, fourth)] == [True, True]
        assert sorted(file.suffix for file in kept.iterdir()) == [".jsa", ".seen"]

    def test_of_two_at_once_one_makes_it(self, kept: Path) -> None:
        seen(kept)
        one, other = ClassArchive.of(PROGRAM, kept), ClassArchive.of(PROGRAM, kept)
        assert one is not None
        assert one.is_made
        assert other is None

    def test_one_that_dies_leaves_nothing_and_the_next_one_makes_it(self, kept: Path) -> None:
        seen(kept)
        with pytest.raises(RuntimeError, match="Spark failed"), quick_java(PROGRAM, kept):
            raise RuntimeError("Spark failed")
        assert [file.suffix for file in kept.iterdir()] == [".seen"]
        loaded(kept)
        assert "shared objects file (top)" in loaded(kept)

    def test_of_one_whose_worker_died_the_claim_ends(self, kept: Path) -> None:
        seen(kept)
        made = ClassArchive.of(PROGRAM, kept)
        assert made is not None
        hours_ago = time.time() - 7_200
        os.utime(made.file, (hours_ago, hours_ago))
        assert ClassArchive.of(PROGRAM, kept) == made

    def test_one_that_was_cut_off_is_made_anew(self, kept: Path) -> None:
        seen(kept)
        loaded(kept)
        (archive,) = kept.glob("*.jsa")
        content = archive.read_bytes()
        archive.unlink()
        archive.write_bytes(content[: len(content) // 2])
        assert "jars/hadoop" in loaded(kept)
        assert "shared objects file (top)" in loaded(kept)


class TestNoArchive:
    def test_in_a_folder_where_others_may_write(self, kept: Path) -> None:
        kept.mkdir()
        kept.chmod(0o777)
        for _ in range(3):
            seen(kept)
        assert list(kept.iterdir()) == []

    def test_of_a_java_or_a_spark_that_is_not_known(self, kept: Path, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").touch()
        for env_vars in ({"JAVA_HOME": str(tmp_path)}, {"SPARK_HOME": str(tmp_path)}):
            program = SparkProgram(env_vars={**PROGRAM.env_vars, **env_vars})
            with quick_java(program, kept) as options:
                assert options == FAST_COMPILER
            assert not kept.exists()

    @pytest.mark.parametrize(("version", "known"), [("1.8.0_442", False), ("11.0.27", False), ("17.0.15", True)])
    def test_of_an_older_java(self, kept: Path, tmp_path: Path, version: str, known: bool) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").touch()
        (tmp_path / "release").write_text(f'JAVA_VERSION="{version}"\n')
        program = SparkProgram(env_vars={**PROGRAM.env_vars, "JAVA_HOME": str(tmp_path)})
        assert ClassArchive.of(program, kept) is None
        assert (ClassArchive.of(program, kept) is not None) is known

    def test_in_a_folder_whose_name_has_a_space(self, tmp_path: Path) -> None:
        for _ in range(2):
            assert ClassArchive.of(PROGRAM, tmp_path / "our jars") is None
