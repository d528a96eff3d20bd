"""How the driver's Java starts for a small window: what ``spark-submit`` gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.submission.quick_java import FAST_COMPILER
from tests.integration.airflow.conftest import LOCAL_SPARK, Context, cleared
from tests.integration.airflow.submit_commands.conftest import load, spark_connection

DRIVER = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def here(noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)


class TestALoadOfASmallWindow:
    def test_gets_the_fast_compiler_alone(self, window: dict[str, Any], context: Context, noted: Path) -> None:
        load(window).execute(context)
        assert java_of(noted) == FAST_COMPILER

    def test_or_the_java_options_of_the_user_alone(
        self, window: dict[str, Any], context: Context, noted: Path, tmp_path: Path
    ) -> None:
        load(window, conf={DRIVER: "-Xss4m"}).execute(context)
        assert java_of(noted) == "-Xss4m"
        cleared(context)
        load(window, reload=True, env_vars={"JDK_JAVA_OPTIONS": "-Xss4m"}).execute(context)
        assert java_of(noted) is None
        (tmp_path / "spark-defaults.conf").write_text(f"{DRIVER} -Xss4m\n")
        cleared(context)
        load(window, reload=True).execute(context)
        assert java_of(noted) is None, "spark-submit reads the file"

    def test_on_a_cluster_gets_nothing(
        self, window: dict[str, Any], context: Context, noted: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spark_connection(monkeypatch, "yarn")
        load(window, durable=False).execute(context)
        assert java_of(noted) is None


def java_of(noted: Path) -> str | None:
    """The driver's Java options that the last ``spark-submit`` got."""
    words = json.loads(noted.read_text().splitlines()[-1])["words"]
    return dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--conf").get(DRIVER)
