"""What a Spark run is told: a few confs and one environment variable."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.conf import SECRETS_VARIABLE, RunConf

CONFS = {
    "spark.kafkaOffsets.manifest": "s3a://ledger/flights/windows/w/ab12.json",
    "spark.kafkaOffsets.sha256": "ab12",
    "spark.kafkaOffsets.attempt": "17",
    "spark.kafkaOffsets.kafka.bootstrap.servers": "broker:9092",
    "spark.app.name": "load",
}
SECRET = "org.apache.kafka.common.security.plain.PlainLoginModule required password='hunter2';"


class TestReading:
    def test_reads_what_the_operator_passes(self) -> None:
        conf = RunConf.read(CONFS, {})

        assert conf.manifest_uri == "s3a://ledger/flights/windows/w/ab12.json"
        assert (conf.sha256, conf.attempt, conf.commit, conf.allow_gaps) == ("ab12", 17, 0, False)
        assert RunConf.read(CONFS | {"spark.kafkaOffsets.commit": "19"}, {}).commit == 19

    def test_kafka_confs_become_options_of_the_reader(self) -> None:
        assert RunConf.read(CONFS, {}).kafka == {"kafka.bootstrap.servers": "broker:9092"}

    def test_a_session_needs_no_attempt_to_read(self) -> None:
        unnamed = {key: value for key, value in CONFS.items() if not key.endswith("attempt")}
        assert RunConf.read(unnamed, {}).attempt is None

    @pytest.mark.parametrize("name", ["manifest", "sha256"])
    def test_a_missing_conf_is_named(self, name: str) -> None:
        confs = {key: value for key, value in CONFS.items() if not key.endswith(name)}

        with pytest.raises(ConfigurationError, match=rf"spark\.kafkaOffsets\.{name} is not set"):
            RunConf.read(confs, {})

    def test_gaps_are_allowed_by_a_conf(self) -> None:
        assert RunConf.read(CONFS | {"spark.kafkaOffsets.allowGaps": "True"}, {}).allow_gaps

    def test_a_conf_that_is_neither_true_nor_false_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="true or false, not 'yes'"):
            RunConf.read(CONFS | {"spark.kafkaOffsets.allowGaps": "yes"}, {})

    def test_what_splits_ranges_may_be_a_conf_too(self) -> None:
        split = {"spark.kafkaOffsets.minPartitions": "1", "spark.kafkaOffsets.maxRecordsPerPartition": "500"}

        kafka = RunConf.read(CONFS | split, {}).kafka
        assert (kafka["minPartitions"], kafka["maxRecordsPerPartition"]) == ("1", "500")

    def test_the_size_of_records_is_known_or_not(self) -> None:
        assert RunConf.read(CONFS, {}).bytes_per_record is None
        assert RunConf.read(CONFS | {"spark.kafkaOffsets.bytesPerRecord": "120.5"}, {}).bytes_per_record == 120.5

    @pytest.mark.parametrize("size", ["0", "-1", "nan", "inf", "large"])
    def test_a_size_that_is_none_is_refused(self, size: str) -> None:
        with pytest.raises(ConfigurationError, match=rf"bytesPerRecord must be a number above 0, not '{size}'"):
            RunConf.read(CONFS | {"spark.kafkaOffsets.bytesPerRecord": size}, {})

    @pytest.mark.parametrize("number", ["", "0", "-1", "scheduled.1", "1.5", "\N{SUPERSCRIPT TWO}"])
    @pytest.mark.parametrize("name", ["attempt", "commit"])
    def test_a_number_that_the_log_can_not_have_is_refused(self, name: str, number: str) -> None:
        with pytest.raises(ConfigurationError, match=rf"kafkaOffsets\.{name} must be the number of a commit"):
            RunConf.read(CONFS | {f"spark.kafkaOffsets.{name}": number}, {})


class TestSecrets:
    def test_secrets_join_the_reader_options_and_stay_out_of_repr(self) -> None:
        conf = RunConf.read(CONFS, {SECRETS_VARIABLE: json.dumps({"kafka.sasl.jaas.config": SECRET})})

        assert conf.kafka["kafka.sasl.jaas.config"] == SECRET
        assert "hunter2" not in repr(conf)

    @pytest.mark.parametrize("text", ["password=hunter2", '["hunter2"]', '{"kafka.ssl.key.password": {"hunter2": 1}}'])
    def test_malformed_secrets_are_refused_without_being_quoted(self, text: str) -> None:
        with pytest.raises(ConfigurationError, match=SECRETS_VARIABLE) as caught:
            RunConf.read(CONFS, {SECRETS_VARIABLE: text})

        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_the_names_of_the_confs_come_without_pyspark() -> None:
    """The Airflow side imports them while it parses Dags."""
    code = "import sys, airflow_kafka_offsets.spark.session.conf; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
