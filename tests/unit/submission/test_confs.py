"""The user's own confs, as ``spark-submit`` puts them together; and ours that depend on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.submission.confs import GivenConfs, confs_in, not_given, token_endpoint_allowed
from airflow_kafka_offsets.submission.spark_program import SparkProgram


class TestGivenConfs:
    @pytest.fixture(autouse=True)
    def defaults(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local"}))
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
        file = tmp_path / "spark-defaults.conf"
        file.write_text("spark.both file\nspark.file file\nspark.secret hunter2\n")
        return file

    def given(self, **arguments: Any) -> GivenConfs:
        return GivenConfs.of(
            KafkaSparkSubmitOperator(task_id="t", window={}, application="a.py", **arguments), SparkProgram()
        )

    def test_are_those_of_the_file_and_over_them_those_of_the_task(self, defaults: Path) -> None:
        given = self.given(conf={"spark.both": "task", "spark.task": True})
        expected = {"spark.both": "task", "spark.file": "file", "spark.task": "True", "spark.secret": "hunter2"}
        assert given.confs == expected
        assert (given.source("spark.both"), given.source("spark.file")) == ("conf=", str(defaults))

    def test_a_properties_file_hides_the_defaults(self, tmp_path: Path) -> None:
        own = tmp_path / "own.conf"
        own.write_text("spark.own own")
        assert self.given(properties_file=str(own)).confs == {"spark.own": "own"}

    def test_a_file_that_cant_be_read_is_left_to_spark_submit(self, tmp_path: Path) -> None:
        for name in (tmp_path / "missing.conf", tmp_path):
            given = self.given(properties_file=str(name), conf={"spark.task": "task"})
            assert (given.file, given.confs) == (name, {"spark.task": "task"})

    def test_what_isnt_text_is_read_as_spark_reads_it(self, defaults: Path) -> None:
        defaults.write_bytes(b"spark.file f\xefle\n")
        assert self.given().confs == {"spark.file": "f\ufffdle"}

    def test_are_seen_in_no_log(self) -> None:
        assert "hunter2" not in repr(self.given())


def test_of_our_defaults_stays_what_the_user_leaves_open() -> None:
    assert not_given({"spark.a": "ours", "spark.b": "ours"}, {"spark.a": "users"}) == {"spark.b": "ours"}


def test_a_properties_file_is_read_as_spark_submit_reads_it() -> None:
    text = "# ours\n\nspark.a  -Xss4m -Dx=y\nspark.b = 2\nspark.c=three = 3\n spark.d\t4 \nspark.e\n"
    assert confs_in(text) == {"spark.a": "-Xss4m -Dx=y", "spark.b": "2", "spark.c": "three = 3", "spark.d": "4"}
    text = "spark.a -Xss4m \\\n    -Dfoo=bar\nspark.b:2\nspark\\:c = C\\:\\\\d\nspark.d 4\\\\\nspark.e 5"
    found = {"spark.a": "-Xss4m -Dfoo=bar", "spark.b": "2", "spark:c": "C:\\d", "spark.d": "4\\", "spark.e": "5"}
    assert confs_in(text) == found
    text = "# spark.a -Xss4m \\\nspark.b 2\nspark.c 3 \\\n  # 4\n"  # a comment isn't continued
    assert confs_in(text) == {"spark.b": "2", "spark.c": "3 # 4"}


class TestTokenEndpoint:
    READER: ClassVar = {"kafka.sasl.oauthbearer.token.endpoint.url": "https://i.example.org/t"}
    ALLOWS = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://i.example.org/t"

    def test_is_allowed_behind_the_users_own_options(self) -> None:
        given = {"spark.executor.extraJavaOptions": "-Xss4m"}
        assert token_endpoint_allowed(self.READER, given) == {
            "spark.driver.extraJavaOptions": self.ALLOWS,
            "spark.executor.extraJavaOptions": f"-Xss4m {self.ALLOWS}",
        }

    def test_what_the_user_allows_himself_is_left(self) -> None:
        own = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://i.example.org/t,https://other"
        assert list(token_endpoint_allowed(self.READER, {"spark.driver.extraJavaOptions": own})) == [
            "spark.executor.extraJavaOptions"
        ]

    def test_other_logins_need_nothing(self) -> None:
        assert token_endpoint_allowed({"kafka.sasl.mechanism": "PLAIN"}, {}) == {}
