"""Who starts the driver; and credentials on their way to it: what each kind of cluster gets, and where there is no safe
way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.conf import SECRETS_VARIABLE, RunConf, secrets_text
from airflow_kafka_offsets.submission.confs import GivenConfs, confs_in
from airflow_kafka_offsets.submission.driver import DriverPlace, secrets_on_their_way

SECRET = {"kafka.sasl.jaas.config": 'required username="u" password="$HOME `id` \\" hunter2";'}
TEXT = secrets_text(SECRET)


def connection(master: str, deploy_mode: str | None) -> dict[str, str | None]:
    """A Spark connection, as far as it says where the driver runs."""
    return {"master": master, "deploy_mode": deploy_mode}


class TestDriverPlace:
    @pytest.mark.parametrize(
        ("master", "deploy_mode", "place"),
        [
            ("local[2]", None, DriverPlace.HERE),
            ("spark://a:7077,b:7077", "client", DriverPlace.HERE),
            ("yarn", "cluster", DriverPlace.YARN),
            ("k8s://https://api:443", "cluster", DriverPlace.KUBERNETES),
        ],
    )
    def test_who_starts_it(self, master: str, deploy_mode: str | None, place: DriverPlace) -> None:
        assert DriverPlace.of(connection(master, deploy_mode), GivenConfs()) is place

    def test_a_deploy_mode_among_the_confs_would_go_unseen(self) -> None:
        with pytest.raises(ConfigurationError, match=r"spark\.submit\.deployMode=cluster .* deploy_mode="):
            DriverPlace.of(connection("yarn", None), GivenConfs(in_task={"spark.submit.deployMode": "cluster"}))

    def test_a_master_without_cluster_mode_is_named(self) -> None:
        with pytest.raises(ConfigurationError, match=r"can't be deployed to local\[2\]"):
            DriverPlace.of(connection("local[2]", "cluster"), GivenConfs())

    def test_a_standalone_cluster_runs_no_python_application_itself(self) -> None:
        """Spark refuses that too, once it is submitted."""
        with pytest.raises(ConfigurationError, match=r"spark://a:7077 is a standalone cluster.*Use deploy mode client"):
            DriverPlace.of(connection("spark://a:7077", "cluster"), GivenConfs())


class TestEnvironment:
    def test_the_variable_is_there_while_it_is_submitted_and_not_after(self) -> None:
        with secrets_on_their_way(DriverPlace.HERE, SECRET, GivenConfs()) as properties_file:
            assert (os.environ[SECRETS_VARIABLE], properties_file) == (TEXT, None)
        assert SECRETS_VARIABLE not in os.environ

    @pytest.mark.parametrize("place", list(DriverPlace))
    def test_a_connection_without_credentials_needs_nothing(self, place: DriverPlace) -> None:
        with secrets_on_their_way(place, {}, GivenConfs(Path("/mine.conf"))) as properties_file:
            assert (SECRETS_VARIABLE in os.environ, properties_file) == (False, None)


class TestKubernetesSecret:
    NAMED = {"spark.kubernetes.driver.secretKeyRef.KAFKA_OFFSETS_SECRETS": "kafka-loader:options"}

    @pytest.mark.parametrize("given", [GivenConfs(in_file=NAMED), GivenConfs(in_task=NAMED)], ids=["file", "task"])
    def test_may_be_named_in_the_task_or_in_the_file(self, given: GivenConfs) -> None:
        with secrets_on_their_way(DriverPlace.KUBERNETES, SECRET, given) as properties_file:
            assert (SECRETS_VARIABLE in os.environ, properties_file) == (False, None)

    def test_is_asked_for(self) -> None:
        with (
            pytest.raises(ConfigurationError, match="Put them into a Kubernetes secret"),
            secrets_on_their_way(DriverPlace.KUBERNETES, SECRET, GivenConfs()),
        ):
            pass


class TestPropertiesFile:
    def test_the_driver_reads_them_from_the_conf(self) -> None:
        told = {
            "spark.kafkaOffsets.manifest": "m",
            "spark.kafkaOffsets.sha256": "s",
            "spark.kafkaOffsets.secrets": TEXT,
        }
        assert RunConf.read(told, {}).kafka == SECRET

    def test_the_users_own_lines_stay_in_force(self, tmp_path: Path) -> None:
        own = tmp_path / "own.conf"
        own.write_text("spark.executor.cores 4")  # without an end of line
        with secrets_on_their_way(DriverPlace.YARN, SECRET, GivenConfs(own)) as properties_file:
            assert properties_file is not None
            lines = Path(properties_file).read_text().splitlines()
        assert lines == ["spark.executor.cores 4", "", f"spark.kafkaOffsets.secrets {TEXT}"]
        assert not Path(properties_file).exists()

    def test_what_isnt_text_is_left_to_spark(self, tmp_path: Path) -> None:
        own = tmp_path / "own.conf"
        own.write_bytes(b"# f\xfcr alle\n")
        with secrets_on_their_way(DriverPlace.YARN, SECRET, GivenConfs(own)) as properties_file:
            assert properties_file is not None
            assert Path(properties_file).read_bytes().startswith(b"# f\xfcr alle\n")

    def test_they_continue_no_line_of_the_users(self, tmp_path: Path) -> None:
        """Else they would be a part of its value, which processes and Spark's UI show."""
        own = tmp_path / "own.conf"
        own.write_text("spark.executor.extraJavaOptions -Xss4m \\")
        with secrets_on_their_way(DriverPlace.YARN, SECRET, GivenConfs(own)) as properties_file:
            assert properties_file is not None
            found = confs_in(Path(properties_file).read_text())
        assert found == {"spark.executor.extraJavaOptions": "-Xss4m", "spark.kafkaOffsets.secrets": TEXT}

    def test_nothing_in_it_means_something_to_a_shell_or_a_properties_file(self) -> None:
        assert not set(TEXT) & set("$`\"'\\!#: \n")
