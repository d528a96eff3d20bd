"""What the operator has spark-submit do on Kubernetes: the whole command, and nothing secret in it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.operators import spark_submit as spark_submit_operator
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.errors import ConfigurationError, DriverGoneError, SparkFailedError
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.submission.application import LOAD_APPLICATION
from airflow_kafka_offsets.submission.driver import UNKNOWN
from dev.kafka import Broker
from dev.spark_packages import CONNECTOR
from tests.integration.airflow.conftest import COUNT, Context, Resolve, at, cleared, fails_with
from tests.integration.airflow.in_sparks_place import _count
from tests.integration.airflow.submit_commands.conftest import (
    GIVEN_BACK,
    PASSWORD,
    POD,
    QUIET,
    WorkerDies,
    as_words,
    confs,
    driver_of,
    dying_between_polls,
    first_event,
    last,
    load,
    locked_in,
    spark_connection,
)

SECRET_REF = "spark.kubernetes.driver.secretKeyRef.KAFKA_OFFSETS_SECRETS"

HALF = """
from tests.integration.airflow.in_sparks_place import put
for name in {names}:
    put("0000000a." + name + ".json", b'{{"attempt": ')
"""
"""A driver that dies while it writes to the ledger."""

COUNT_LAST = "from tests.integration.airflow.in_sparks_place import batch, _count\n_count(*batch()[-1])\n"
"""A driver that has counted the last window, and is still loading others."""


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

    def load(self, window: Any, **arguments: Any) -> KafkaSparkSubmitOperator:
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
            *("--master", "k8s://https://kubernetes.default.svc:443", *QUIET, *GIVEN_BACK),
            *as_words([*told[:3], *own, *told[3:], "spark.kubernetes.submission.waitAppCompletion=false"]),
            *("--conf", "spark.kubernetes.namespace=etl", "--py-files", bundle, "--packages", CONNECTOR),
            *("--name", "arrow-spark", "--deploy-mode", "cluster"),
            *(LOAD_APPLICATION, "--output", "hdfs:///data/orders"),
        ]
        assert given["secrets"] is None
        assert PASSWORD not in str(given)

    @pytest.mark.parametrize("meanwhile", [["Running", "Running", "Succeeded"], ["Succeeded", "Succeeded"]])
    def test_a_second_try_goes_on_with_the_pod_of_the_first(
        self, meanwhile: list[str], window: dict[str, Any], context: Context, noted: Path, pods: Pods
    ) -> None:
        """The worker dies while the pod runs."""
        self.die_in_the_first_try(window, context, pods)
        pods.phases = meanwhile
        result = self.load(window).execute(context)

        assert len(noted.read_text().splitlines()) == 1
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in last(noted)["words"]

    @pytest.mark.parametrize("meanwhile", ["gone", "Failed"])
    def test_a_pod_that_has_failed_meanwhile_or_is_gone_is_followed_by_another_attempt(
        self, meanwhile: str, window: dict[str, Any], context: Context, noted: Path, pods: Pods, ledger_root: Path
    ) -> None:
        self.die_in_the_first_try(window, context, pods)
        if meanwhile == "gone":  # before it could count
            (result,) = ledger_root.rglob("*.result.json")
            result.unlink()
        pods.phases = [meanwhile, "Succeeded"]
        result = self.load(window).execute(context)

        first, second = noted.read_text().splitlines()
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in second
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" not in first

    def test_a_pod_of_before_a_reload_is_not_gone_on_with(
        self, window: dict[str, Any], context: Context, noted: Path, pods: Pods
    ) -> None:
        """The worker died, and whoever saw it mended the Dag before the retry."""
        self.die_in_the_first_try(window, context, pods)
        pods.phases = ["Succeeded"]
        cleared(context)
        result = self.load(window, reload=True).execute(context)
        first, second = noted.read_text().splitlines()
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in second
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" not in first

    def test_after_a_loss_it_goes_on_with_the_attempt_that_the_pod_makes(
        self, ten: str, window: dict[str, Any], admin: KafkaAdminClient, context: Context, noted: Path, pods: Pods
    ) -> None:
        """More may be lost by then, which the pod had read before."""
        admin.delete_records({TopicPartition(ten, 0): 5})
        pods.phases = ["Running"]
        with pytest.raises(WorkerDies):
            self.load(window, on_data_loss="load_rest").execute(context)
        admin.delete_records({TopicPartition(ten, 0): 7})
        pods.phases = ["Running", "Running", "Succeeded"]
        result = self.load(window, on_data_loss="load_rest").execute(context)

        assert len(noted.read_text().splitlines()) == 1
        assert (result["lost"], result["rows"]) == (3, 2)

    @pytest.mark.parametrize(
        "halves",
        [
            (),
            pytest.param(("note",), marks=pytest.mark.nightly("one of the two; make test has none and both")),
            pytest.param(("result",), marks=pytest.mark.nightly("one of the two; make test has none and both")),
            ("note", "result"),
        ],
    )
    def test_a_pod_that_vanishes_before_anything_is_published_leaves_it_to_the_next_try(
        self, halves: tuple[str, ...], window: dict[str, Any], context: Context, noted: Path, pods: Pods
    ) -> None:
        """Its node is drained, say: the provider takes that for a good end. What it was writing is there by half."""
        in_place_of_counts(noted, HALF.format(names=halves))
        for _ in range(2):
            pods.phases = ["gone"]
            with pytest.raises(DriverGoneError, match=r"is gone, and has counted nothing of window"):
                self.load(window).execute(context)
        assert len(noted.read_text().splitlines()) == 2

    def test_the_triggerer_waits_for_the_pod_and_the_task_reports(
        self, window: dict[str, Any], context: Context, noted: Path, pods: Pods
    ) -> None:
        named = self.deferred(window, context)
        assert pods.phases == [], "nobody has waited for it"
        assert len(noted.read_text().splitlines()) == 1
        assert named["job_id"] == f"etl:{POD}"

        pods.phases = ["Running", "Succeeded"]
        event = first_event(named.pop("trigger"))
        assert event == {"status": "noted"}, "what it has counted"
        resumed = self.load(window, deferrable=True)
        report = resumed.driver_ended(context, event, **named)
        assert f"spark.kafkaOffsets.attempt={report['attempt']}" in last(noted)["words"]

    def test_of_several_windows_it_waits_for_the_last_one_and_then_for_what_is_left(
        self, ten: str, window: dict[str, Any], resolve: Resolve, context: Context, noted: Path, pods: Pods
    ) -> None:
        """The driver loads some at once. A trigger's arguments are short, however many there are."""
        in_place_of_counts(noted, COUNT_LAST)
        windows = [locked_in(resolve(ten, at(7), at(9))), window]
        named = self.deferred(windows, context)
        trigger = named.pop("trigger")
        pods.phases = ["Running", "Running"]
        event = first_event(trigger)
        assert event == {"status": "noted"}
        with pytest.raises(TaskDeferred) as again:
            self.load(windows, deferrable=True).driver_ended(context, event, **named)
        assert again.value.kwargs == named
        left = again.value.trigger.serialize()[1]
        assert [trigger.serialize()[1]["window"], left["window"]] == windows
        _count(window["manifest"], left["attempt"])
        event = first_event(again.value.trigger)
        reports = self.load(windows, deferrable=True).driver_ended(context, event, **named)
        assert [each["rows"] for each in reports] == [2, 5]
        assert len(noted.read_text().splitlines()) == 1

    @pytest.mark.parametrize(
        ("phase", "state", "error"),
        [("Failed", "Failed", SparkFailedError), ("gone", UNKNOWN, DriverGoneError)],
    )
    def test_a_pod_that_ends_badly_while_the_task_is_deferred_is_told(
        self,
        phase: str,
        state: str,
        error: type[Exception],
        window: dict[str, Any],
        context: Context,
        noted: Path,
        pods: Pods,
    ) -> None:
        in_place_of_counts(noted, "")
        named = self.deferred(window, context)
        pods.phases = [phase]
        event = first_event(named.pop("trigger"))
        assert event == {"status": "ended", "state": state, "active": False, "succeeded": False}
        with pytest.raises(error, match=f"etl:{POD}|is gone, and has counted nothing"):
            self.load(window, deferrable=True).driver_ended(context, event, **named)

    def deferred(self, window: Any, context: Context) -> dict[str, Any]:
        """Submit; what the task is told when it resumes, and the trigger that it left."""
        context["ti"].xcom_push = lambda **_: None  # its links
        with pytest.raises(TaskDeferred) as deferred:
            self.load(window, deferrable=True).execute(context)
        return {"trigger": deferred.value.trigger, **(deferred.value.kwargs or {})}

    def die_in_the_first_try(self, window: dict[str, Any], context: Context, pods: Pods) -> None:
        pods.phases = ["Running"]
        with pytest.raises(WorkerDies):
            self.load(window).execute(context)
        assert driver_of(context) == f"etl:{POD}"

    def test_credentials_without_a_secret_to_hold_them_are_refused_before_anything_is_submitted(
        self, window: dict[str, Any], context: Context, noted: Path
    ) -> None:
        with pytest.raises(AirflowFailException, match=SECRET_REF.replace(".", r"\.")) as failed:
            load(window, durable=False).execute(context)
        assert fails_with(ConfigurationError, failed)
        assert not noted.exists()


def in_place_of_counts(noted: Path, code: str) -> None:
    """Have spark-submit do something else than count."""
    program = noted.with_name("spark-submit")
    program.write_text(program.read_text().replace(COUNT, code))


def test_what_kubernetes_gives_the_driver_may_be_plain_json() -> None:
    """A user writes it into the secret by hand."""
    told = {"spark.kafkaOffsets.manifest": "hdfs:///m", "spark.kafkaOffsets.sha256": "00"}
    read = RunConf.read(told, {"KAFKA_OFFSETS_SECRETS": '{"kafka.sasl.jaas.config": "x"}\n'})
    assert read.kafka == {"kafka.sasl.jaas.config": "x"}
