"""What a ``spark-submit`` is found to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.release import SparkRelease
from airflow_kafka_offsets.submission import spark_program
from airflow_kafka_offsets.submission.spark_program import SparkProgram

BANNER = """
Welcome to
      ____              __
     / __/__  ___ _____/ /__
    _\\ \\/ _ \\/ _ `/ __/  '_/
   /___/ .__/\\_,_/_/ /_/\\_\\   version 3.5.6-amzn-0
      /_/

Using Scala version 2.12.18, OpenJDK 64-Bit Server VM, 17.0.18
"""

MakeProgram = Callable[..., SparkProgram]


@pytest.fixture
def make_program(tmp_path: Path) -> MakeProgram:
    """A program in a folder of its own, with or without Spark's jars beside it."""

    def make(says: str = "", jar: str | None = None) -> SparkProgram:
        home = tmp_path / "spark"
        (home / "bin").mkdir(parents=True)
        (home / "jars").mkdir()
        if jar:
            (home / "jars" / jar).touch()
        binary = home / "bin" / "spark-submit"
        binary.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
        binary.chmod(0o755)
        return SparkProgram(str(binary), {"SPARK_HOME": str(home)})

    return make


class TestDefaults:
    """Where ``spark-submit`` finds its defaults, as ``find-spark-home`` does."""

    def test_it_is_asked_in_the_environment_of_the_task(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for home in ("workers", "tasks"):
            (tmp_path / home / "conf").mkdir(parents=True)
            (tmp_path / home / "conf" / "spark-defaults.conf").touch()
        monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path / "workers"))
        assert SparkProgram().defaults() == tmp_path / "workers/conf/spark-defaults.conf"
        own = SparkProgram(env_vars={"SPARK_HOME": str(tmp_path / "tasks")})
        assert own.defaults() == tmp_path / "tasks/conf/spark-defaults.conf"

    def test_it_is_that_of_the_binary(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("bin/spark3-submit", "conf/spark-defaults.conf"):
            (tmp_path / name).parent.mkdir()
            (tmp_path / name).touch(0o755)
        for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        assert SparkProgram("spark3-submit").defaults() == tmp_path / "conf/spark-defaults.conf"

    def test_where_there_are_none_it_is_said(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO"):
            assert SparkProgram(env_vars={"SPARK_CONF_DIR": str(tmp_path)}).defaults() is None
        assert caplog.messages == [f"spark-submit has no spark-defaults.conf in {tmp_path}"]


class TestRelease:
    def test_is_what_its_jars_say(self, make_program: MakeProgram) -> None:
        assert make_program(jar="spark-core_2.12-3.5.1.jar").release() == SparkRelease("3.5.1", "2.12")

    def test_is_what_it_says_itself_where_a_vendor_keeps_its_jars_elsewhere(self, make_program: MakeProgram) -> None:
        assert make_program(BANNER).release(ask=True) == SparkRelease("3.5.6", "2.12")

    def test_is_unknown_where_neither_tells(self, make_program: MakeProgram) -> None:
        assert make_program("command not found").release(ask=True) is None
        assert SparkProgram("echo", {"SPARK_HOME": "/nowhere"}).release() is None
        assert SparkProgram("/nowhere/spark-submit", {"SPARK_HOME": "/nowhere"}).release() is None

    def test_is_that_of_the_installed_pyspark(self) -> None:
        import pyspark

        found = SparkProgram().release()
        assert found is not None
        assert found.version == pyspark.__version__


class TestRefuseMixed:
    def test_two_versions_in_one_folder_are_one_clear_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        versions = {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}
        monkeypatch.setattr(spark_program, "version", versions.__getitem__)
        with pytest.raises(ConfigurationError, match=r"4\.3\.0 and pyspark-client 4\.2\.0 .*==4\.2\.0 .*==4\.2\.0"):
            SparkProgram().refuse_mixed()

    def test_a_spark_of_its_own_has_nothing_to_do_with_them(
        self, monkeypatch: pytest.MonkeyPatch, make_program: MakeProgram
    ) -> None:
        versions = {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}
        monkeypatch.setattr(spark_program, "version", versions.__getitem__)
        make_program(jar="spark-core_2.12-3.5.1.jar").refuse_mixed()

    def test_the_same_version_of_both_passes(self) -> None:
        SparkProgram().refuse_mixed()
