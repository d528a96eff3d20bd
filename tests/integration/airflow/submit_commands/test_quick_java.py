"""The Java options for the load of a small window: what ``spark-submit`` gets, and that it takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.submission.quick_java import OPTIONS
from tests.integration.airflow.conftest import LOCAL_SPARK, Context
from tests.integration.airflow.submit_commands.conftest import load, spark_connection

DRIVER = "spark.driver.extraJavaOptions"


class TestALoad:
    @pytest.fixture(autouse=True)
    def here(self, noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)

    def test_of_a_small_window_has_them_for_driver_and_launcher(
        self, window: dict[str, Any], context: Context, noted: Path
    ) -> None:
        load(window).execute(context)
        assert given(noted) == (OPTIONS, OPTIONS)

    def test_with_java_options_of_the_user_has_those_alone(
        self, window: dict[str, Any], context: Context, noted: Path, tmp_path: Path
    ) -> None:
        load(window, conf={DRIVER: "-XX:+UseG1GC"}).execute(context)
        assert given(noted) == ("-XX:+UseG1GC", None)
        (tmp_path / "spark-defaults.conf").write_text(f"{DRIVER} -XX:+UseG1GC\n")
        load(window).execute(context)
        assert given(noted) == (None, None), "spark-submit reads the file"
        (tmp_path / "spark-defaults.conf").unlink()
        load(window, env_vars={"JDK_JAVA_OPTIONS": "-XX:+UseG1GC"}).execute(context)
        assert given(noted) == (None, None)

    def test_on_a_cluster_has_none(
        self, window: dict[str, Any], context: Context, noted: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spark_connection(monkeypatch, "yarn")
        load(window, durable=False).execute(context)
        assert given(noted) == (None, None)


def given(noted: Path) -> tuple[str | None, str | None]:
    """The options of driver and launcher that the last ``spark-submit`` got."""
    last = json.loads(noted.read_text().splitlines()[-1])
    words = last["words"]
    confs = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--conf")
    return confs.get(DRIVER), last.get("launcher")
