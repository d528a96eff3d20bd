"""What the operator has spark-submit do on YARN and Kubernetes: the whole command, and nothing secret in it.

A program of that name notes what it is given, so that no cluster is needed. The window is published already: the load
then ends well. Standalone clusters are real ones, in ``tests/integration/spark/cluster``.
"""

from __future__ import annotations

import json
import stat
import sys
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.operators import spark_submit as spark_submit_operator
from airflow.sdk.exceptions import AirflowFailException
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.errors import ConfigurationError, DriverGoneError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.driver_bundle import LOAD_APPLICATION
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.spark.conf import RunConf
from dev.kafka import Broker
from tests.integration.airflow.conftest import Context, Publish, Resolve, at, fails_with, sasl, use_connection

PASSWORD = "admin-secret"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
SECRET_REF = "spark.kubernetes.driver.secretKeyRef.KAFKA_OFFSETS_SECRETS"
APPLICATION_ID = "application_1700000000000_0001"
POD = "load-1f2e3d-driver"

NOTING = f"""#!{sys.executable}
import json, os, sys
words = sys.argv[1:]
file = words[words.index("--properties-file") + 1] if "--properties-file" in words else None
noted = {{"words": words, "secrets": os.environ.get("KAFKA_OFFSETS_SECRETS")}}
if file:
    noted |= {{"properties": open(file).read(), "mode": os.stat(file).st_mode}}
with open(os.path.join(os.path.dirname(__file__), "noted.jsonl"), "a") as notes:
    print(json.dumps(noted), file=notes)
print("Submitted {APPLICATION_ID}", "pod name: {POD}", "Exit code: 0", sep="\\n")
"""


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What spark-submit was given, a line each time; the file is there after the first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "spark-submit"
    program.write_text(NOTING)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.eventLog.enabled true\n")
    return folder / "noted.jsonl"


@pytest.fixture(autouse=True)
def locked(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    use_connection(monkeypatch, "locked", sasl(broker, "admin", PASSWORD))


@pytest.fixture(autouse=True)
def _metrics(context: Context) -> None:
    context["ti"].stats_tags = {}


@pytest.fixture
def window(ten: str, resolve: Resolve, publish: Publish) -> dict[str, Any]:
    pinned = resolve(ten, at(2), at(7))
    publish(pinned)
    return pinned


def spark_connection(monkeypatch: pytest.MonkeyPatch, host: str, **extra: str) -> None:
    fields = {"conn_type": "spark", "host": host, "extra": {"deploy-mode": "cluster"} | extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(fields))


def load(window: dict[str, Any], **arguments: Any) -> KafkaSparkSubmitOperator:
    return KafkaSparkSubmitOperator(
        task_id="load",
        window=window,
        kafka_conn_id="locked",
        packages=CONNECTOR,
        application_args=["--output", "hdfs:///data/orders"],
        **arguments,
    )


def last(noted: Path) -> dict[str, Any]:
    """What spark-submit was given last; without the size of records, which is what the broker's disk says."""
    given = dict(json.loads(noted.read_text().splitlines()[-1]))
    (size,) = (place for place, word in enumerate(given["words"]) if word.startswith("spark.kafkaOffsets.bytesPer"))
    assert given["words"].pop(size - 1) == "--conf"
    del given["words"][size - 1]
    return given


def confs(broker: Broker, window: dict[str, Any], attempt: str) -> list[str]:
    """The confs of every load, as words of a command."""
    told = {
        "kafka.bootstrap.servers": broker.sasl_bootstrap_servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
    }
    own = {
        "manifest": window["manifest"],
        "sha256": window["sha256"],
        "attempt": attempt,
        "allowGaps": "false",
    }
    return [f"spark.kafkaOffsets.{name}={value}" for name, value in (told | own).items()]


def as_words(values: list[str]) -> list[str]:
    return [word for value in values for word in ("--conf", value)]


class TestYarn:
    def test_the_command_and_the_credentials_in_a_private_properties_file_with_the_defaults(
        self,
        window: dict[str, Any],
        broker: Broker,
        context: Context,
        noted: Path,
        resource_manager: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
        resource_manager.states = ["FINISHED"]
        arguments = {"conf": {"spark.executor.cores": "2"}, "yarn_track_via_rm_api": True}
        operator = load(window, **arguments)
        result = operator.execute(context)

        given = last(noted)
        words = given["words"]
        file, bundle = (words[words.index(name) + 1] for name in ("--properties-file", "--py-files"))
        told = confs(broker, window, result["attempt"])
        assert words == [
            *("--master", "yarn", "--conf", "spark.yarn.maxAppAttempts=1"),
            *as_words([*told[:3], "spark.executor.cores=2", *told[3:], "spark.yarn.submit.waitAppCompletion=false"]),
            *("--properties-file", file, "--py-files", bundle, "--packages", CONNECTOR),
            *("--name", "arrow-spark", "--deploy-mode", "cluster"),
            *(LOAD_APPLICATION, "--output", "hdfs:///data/orders"),
        ]
        defaults, _, line, end = given["properties"].split("\n")
        name, _, text = line.partition(" ")
        assert (defaults, name, end) == (
            "spark.eventLog.enabled true",
            "spark.kafkaOffsets.secrets",
            "",
        )
        assert PASSWORD in json.loads(b64decode(text))["kafka.sasl.jaas.config"]
        assert stat.S_IMODE(given["mode"]) == 0o600
        assert (given["secrets"], Path(file).exists(), Path(bundle).exists()) == (None, False, False)
        assert PASSWORD not in str(words)
        assert (operator.conf, operator.py_files, operator.properties_file) == (arguments["conf"], None, None)

    def test_the_defaults_are_those_of_the_spark_that_the_task_names(
        self, window: dict[str, Any], context: Context, noted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spark_connection(monkeypatch, "yarn")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "spark-defaults.conf").write_text("spark.executor.cores 4\n")
        load(window, durable=False, env_vars={"SPARK_CONF_DIR": str(tmp_path / "other")}).execute(context)
        assert last(noted)["properties"].startswith("spark.executor.cores 4\n")

    def test_a_deploy_mode_among_the_confs_is_refused(
        self, window: dict[str, Any], context: Context, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither the Spark provider nor this package would know where the driver is."""
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
        with pytest.raises(AirflowFailException, match="deploy_mode=") as failed:
            load(window, conf={"spark.submit.deployMode": "cluster"}).execute(context)
        assert fails_with(ConfigurationError, failed)

    def test_a_second_try_goes_on_with_the_application_of_the_first(
        self,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        resource_manager: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The worker dies while the application runs."""
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
        resource_manager.states = ["SUBMITTED"]
        with pytest.raises(WorkerDies):
            load(window, yarn_track_via_rm_api=True).execute(context)
        assert context["task_state_store"]["spark_job_id"] == APPLICATION_ID
        resource_manager.states = ["RUNNING", "FINISHED"]
        result = load(window, yarn_track_via_rm_api=True).execute(context)

        words = last(noted)["words"]
        assert len(noted.read_text().splitlines()) == 1
        assert "spark.yarn.submit.waitAppCompletion=false" in words
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in words
        assert "spark_job_id" not in context["task_state_store"]

    @pytest.mark.parametrize("meanwhile", ["FAILED", "unknown"])
    def test_an_application_that_has_failed_meanwhile_or_is_unknown_by_now_is_followed_by_another_attempt(
        self,
        meanwhile: str,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        resource_manager: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
        resource_manager.states = ["SUBMITTED"]
        with pytest.raises(WorkerDies):
            load(window, yarn_track_via_rm_api=True).execute(context)
        resource_manager.states = [meanwhile, "FINISHED"]
        result = load(window, yarn_track_via_rm_api=True).execute(context)

        first, second = noted.read_text().splitlines()
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in second
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" not in first


class WorkerDies(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def dying_between_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the worker die when the provider waits between two questions to the cluster."""

    def die(_seconds: float) -> None:
        raise WorkerDies

    monkeypatch.setattr(spark_submit, "time", SimpleNamespace(sleep=die))


class ResourceManager:
    """YARN's REST API, as far as the provider asks it.

    :param states: what an application's state is, one answer after the other; ``unknown`` when there is none such.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: list[str] = []
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

        dying_between_polls(monkeypatch)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                state = manager.states.pop(0)
                final = "SUCCEEDED" if state == "FINISHED" else "UNDEFINED"
                body = json.dumps({"app": {"state": state, "finalStatus": final}}).encode()
                known = self.path == f"/ws/v1/cluster/apps/{APPLICATION_ID}" and state != "unknown"
                self.send_response(200 if known else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def resource_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    manager = ResourceManager(monkeypatch)
    yield manager
    manager.close()


class Gone(Exception):
    """What the Kubernetes client raises for a pod that isn't there."""

    status = 404


class Pods:
    """Kubernetes' client and the provider's module of it, as far as the Spark provider asks them.

    :ivar phases: the driver pod's phase, one answer after the other; ``gone`` when there is none such.
    """

    ApiException = Gone

    def __init__(self) -> None:
        self.phases: list[str] = []

    def get_kube_client(self) -> Pods:
        return self

    def read_namespaced_pod(self, pod: str, namespace: str) -> Any:
        assert (pod, namespace) == (POD, "etl")
        phase = self.phases.pop(0)
        if phase == "gone":
            raise Gone
        return SimpleNamespace(status=SimpleNamespace(phase=phase, container_statuses=None))


class TestKubernetes:
    OWN: ClassVar = {SECRET_REF: "kafka-loader:options", "spark.kubernetes.container.image": "etl/spark:4.0.0"}

    @pytest.fixture(autouse=True)
    def pods(self, monkeypatch: pytest.MonkeyPatch) -> Pods:
        """The Spark provider finds them where it looks for the Kubernetes provider."""
        pods = Pods()
        for module in (spark_submit, spark_submit_operator):
            monkeypatch.setattr(module, "kube_client", pods, raising=False)
        spark_connection(monkeypatch, "k8s://https://kubernetes.default.svc:443", namespace="etl")
        dying_between_polls(monkeypatch)
        return pods

    def load(self, window: dict[str, Any], **arguments: Any) -> KafkaSparkSubmitOperator:
        return load(window, conf=self.OWN, track_driver_via_k8s_api=True, **arguments)

    def test_the_command_with_the_users_own_secret(
        self, window: dict[str, Any], broker: Broker, context: Context, noted: Path, pods: Pods
    ) -> None:
        pods.phases = ["Succeeded"]
        result = self.load(window).execute(context)

        given = last(noted)
        words = given["words"]
        bundle = words[words.index("--py-files") + 1]
        told = confs(broker, window, result["attempt"])
        own = [f"{name}={value}" for name, value in self.OWN.items()]
        assert words == [
            *("--master", "k8s://https://kubernetes.default.svc:443"),
            *as_words([*told[:3], *own, *told[3:], "spark.kubernetes.submission.waitAppCompletion=false"]),
            *("--conf", "spark.kubernetes.namespace=etl", "--py-files", bundle, "--packages", CONNECTOR),
            *("--name", "arrow-spark", "--deploy-mode", "cluster"),
            *(LOAD_APPLICATION, "--output", "hdfs:///data/orders"),
        ]
        assert given["secrets"] is None
        assert PASSWORD not in str(given)

    @pytest.mark.parametrize("meanwhile", [["Running", "Succeeded"], ["Succeeded", "Succeeded"]])
    def test_a_second_try_goes_on_with_the_pod_of_the_first(
        self, meanwhile: list[str], window: dict[str, Any], context: Context, noted: Path, pods: Pods
    ) -> None:
        """The worker dies while the pod runs."""
        self.die_in_the_first_try(window, context, pods)
        pods.phases = meanwhile
        result = self.load(window).execute(context)

        assert len(noted.read_text().splitlines()) == 1
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in last(noted)["words"]
        assert not {"spark_job_id", "k8s_driver_status"} & set(context["task_state_store"])

    @pytest.mark.parametrize("meanwhile", ["gone", "Failed"])
    def test_a_pod_that_has_failed_meanwhile_or_is_gone_is_followed_by_another_attempt(
        self, meanwhile: str, window: dict[str, Any], context: Context, noted: Path, pods: Pods
    ) -> None:
        self.die_in_the_first_try(window, context, pods)
        pods.phases = [meanwhile, "Succeeded"]
        result = self.load(window).execute(context)

        first, second = noted.read_text().splitlines()
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in second
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" not in first

    def test_after_a_loss_it_goes_on_with_the_revision_that_the_pod_loads(
        self,
        ten: str,
        resolve: Resolve,
        publish: Publish,
        admin: KafkaAdminClient,
        ledger: Ledger,
        context: Context,
        noted: Path,
        pods: Pods,
    ) -> None:
        """``clamp`` has made another one than was resolved; the pod publishes while there is no worker."""
        window = resolve(ten, at(2), at(7))
        admin.delete_records({TopicPartition(ten, 0): 5})
        pods.phases = ["Running"]
        with pytest.raises(WorkerDies):
            self.load(window, on_truncation="clamp").execute(context)
        pods.phases = ["Running", "Succeeded"]
        publish({"manifest": ledger.pinned(window["window"], 2).uri})
        again = self.load(window, on_truncation="clamp")
        result = again.execute(context)

        assert len(noted.read_text().splitlines()) == 1
        assert (result["revision"], result["lost"], result["rows"]) == (2, 3, 2)
        assert again.seen.pinned.manifest.revision == 2

    def test_a_pod_that_vanishes_before_anything_is_published_leaves_it_to_the_next_try(
        self, ten: str, resolve: Resolve, context: Context, noted: Path, pods: Pods
    ) -> None:
        """Its node is drained, say: the provider takes that for a good end."""
        window = resolve(ten, at(2), at(7))
        pods.phases = ["gone"]
        with pytest.raises(DriverGoneError, match=r"is gone, and window .* is not published"):
            self.load(window).execute(context)
        assert "spark_job_id" not in context["task_state_store"]

    def die_in_the_first_try(self, window: dict[str, Any], context: Context, pods: Pods) -> None:
        pods.phases = ["Running"]
        with pytest.raises(WorkerDies):
            self.load(window).execute(context)
        assert context["task_state_store"]["spark_job_id"] == f"etl:{POD}"

    def test_credentials_without_a_secret_to_hold_them_are_refused_before_anything_is_submitted(
        self, window: dict[str, Any], context: Context, noted: Path
    ) -> None:
        with pytest.raises(AirflowFailException, match=SECRET_REF.replace(".", r"\.")) as failed:
            load(window, durable=False).execute(context)
        assert fails_with(ConfigurationError, failed)
        assert not noted.exists()


def test_what_kubernetes_gives_the_driver_may_be_plain_json() -> None:
    """A user writes it into the secret by hand."""
    told = {"spark.kafkaOffsets.manifest": "hdfs:///m", "spark.kafkaOffsets.sha256": "00"}
    read = RunConf.read(told, {"KAFKA_OFFSETS_SECRETS": '{"kafka.sasl.jaas.config": "x"}\n'})
    assert read.kafka == {"kafka.sasl.jaas.config": "x"}
