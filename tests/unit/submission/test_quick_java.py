"""Which loads get the Java options for seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION
from airflow_kafka_offsets.submission.driver_place import DriverPlace
from airflow_kafka_offsets.submission.quick_java import OPTIONS, launched_with, quick_java
from airflow_kafka_offsets.submission.spark_program import SparkProgram

VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
OF_100_BYTES = {"spark.kafkaOffsets.bytesPerRecord": "100.0"}

Chosen = Callable[..., str | None]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with Spark's settings, on a worker that gives no Java options."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def chosen(settings: Path) -> Chosen:
    def choose(
        place: DriverPlace = DriverPlace.HERE,
        application: str = LOAD_APPLICATION,
        span: int = 30_000,
        confs: dict[str, str] = OF_100_BYTES,
        env_vars: dict[str, str] | None = None,
    ) -> str | None:
        return quick_java(place, SparkProgram(env_vars=env_vars or {}), application, span, confs)

    return choose


class TestQuickJava:
    def test_is_for_the_ready_made_load_of_a_small_window_whose_driver_starts_here(self, chosen: Chosen) -> None:
        assert chosen() == OPTIONS

    @pytest.mark.parametrize("place", set(DriverPlace) - {DriverPlace.HERE})
    def test_isnt_for_drivers_on_a_cluster(self, chosen: Chosen, place: DriverPlace) -> None:
        """Their Java is the cluster's."""
        assert chosen(place=place) is None

    def test_isnt_for_own_applications(self, chosen: Chosen) -> None:
        """They may do heavy work for a small window."""
        assert chosen(application="/dags/jobs/own.py") is None

    @pytest.mark.parametrize(
        ("span", "size", "small"),
        [
            (335_544, "100.0", True),
            (335_545, "100.0", False),
            (30_000, "100000.0", False),
            (32_767, None, True),
            (32_768, None, False),
            (30_000, "many", True),  # the driver refuses it
        ],
    )
    def test_is_for_windows_that_no_plan_divides(
        self, chosen: Chosen, span: int, size: str | None, small: bool
    ) -> None:
        confs = {"spark.kafkaOffsets.bytesPerRecord": size} if size else {}
        assert (chosen(span=span, confs=confs) is not None) is small

    @pytest.mark.parametrize("conf", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
    def test_isnt_for_users_with_java_options_of_their_own(self, chosen: Chosen, conf: str) -> None:
        """A second choice of a garbage collector keeps Java from starting."""
        assert chosen(confs=OF_100_BYTES | {conf: "-XX:+UseG1GC"}) is None

    @pytest.mark.parametrize("name", VARIABLES)
    def test_isnt_for_variables_with_java_options(
        self, chosen: Chosen, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert chosen(env_vars={name: "-XX:+UseG1GC"}) is None
        monkeypatch.setenv(name, "-XX:+UseG1GC")
        assert chosen() is None

    @pytest.mark.parametrize("name", ["java-opts", "spark-env.sh"])
    def test_isnt_for_files_that_may_hold_java_options(self, chosen: Chosen, name: str, settings: Path) -> None:
        (settings / name).touch()
        assert chosen() is None


class TestLaunchedWith:
    def test_the_launcher_has_the_options_until_the_load_ends(self, settings: Path) -> None:
        with launched_with(OPTIONS):
            assert os.environ["SPARK_LAUNCHER_OPTS"] == OPTIONS
        assert "SPARK_LAUNCHER_OPTS" not in os.environ

    def test_or_the_users_own(self, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPARK_LAUNCHER_OPTS", "-Xss4m")
        with launched_with(None):
            assert os.environ["SPARK_LAUNCHER_OPTS"] == "-Xss4m"
        assert os.environ["SPARK_LAUNCHER_OPTS"] == "-Xss4m"
