"""Which loads get a Java for seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_kafka_offsets.submission.application import LOAD_APPLICATION
from airflow_kafka_offsets.submission.driver import DriverPlace
from airflow_kafka_offsets.submission.quick_java import starts_quickly
from airflow_kafka_offsets.submission.spark_program import SparkProgram

VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
OF_100_BYTES = {"spark.kafkaOffsets.bytesPerRecord": "100.0"}

Chosen = Callable[..., bool]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Chosen:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def choose(
        place: DriverPlace = DriverPlace.HERE,
        application: str = LOAD_APPLICATION,
        span: int = 30_000,
        confs: dict[str, str] = OF_100_BYTES,
        env_vars: dict[str, str] | None = None,
    ) -> bool:
        return starts_quickly(place, SparkProgram(env_vars=env_vars or {}), application, span, confs)

    return choose


class TestQuickJava:
    def test_is_for_the_ready_made_load_of_a_small_window_whose_driver_starts_here(self, chosen: Chosen) -> None:
        assert chosen()

    @pytest.mark.parametrize("place", [place for place in DriverPlace if place is not DriverPlace.HERE])
    def test_isnt_for_drivers_on_a_cluster(self, chosen: Chosen, place: DriverPlace) -> None:
        """Their Java is the cluster's."""
        assert not chosen(place=place)

    def test_isnt_for_own_applications(self, chosen: Chosen) -> None:
        """They may do heavy work for a small window."""
        assert not chosen(application="/dags/jobs/own.py")

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
        assert chosen(span=span, confs=confs) is small

    @pytest.mark.parametrize("conf", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
    def test_isnt_for_users_with_java_options_of_their_own(self, chosen: Chosen, conf: str) -> None:
        assert not chosen(confs=OF_100_BYTES | {conf: "-XX:+UseG1GC"})

    @pytest.mark.parametrize("name", VARIABLES)
    def test_isnt_for_variables_with_java_options(
        self, chosen: Chosen, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert not chosen(env_vars={name: "-XX:+UseG1GC"})
        monkeypatch.setenv(name, "-XX:+UseG1GC")
        assert not chosen()
