"""The Dags of ``dags/submitters``: each is rendered and held to its service's model.

Livy's and the Spark operator's are run to the end, against servers of their interfaces that call ``spark-submit``.

Google's provider wants other releases of what is installed beside it, and a hundred packages more. So Dataproc's two
are rendered in an environment of their own, which has it.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ParamValidationError

from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from dev import LOCAL, ROOT
from dev.kafka import Broker
from dev.livy import Livy
from dev.matrix_environments import Airflow, airflow_environment, build
from dev.spark_operator import SparkOperator, is_an_application
from dev.spark_packages import jars_of
from tests.integration.airflow import rendering
from tests.integration.airflow.conftest import Context, Resolve, at
from tests.integration.airflow.rendering import Rendered, dag_of, rendered, submit_of

PAGE = ROOT / "docs" / "guides" / "submitters.md"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = SECTION.findall(PAGE.read_text(encoding="utf-8"))
DAGS = {
    "Amazon EMR": "emr",
    "Amazon EMR Serverless": "emr_serverless",
    "AWS Glue": "glue",
    "Livy": "livy",
    "Google Dataproc": "dataproc",
    "Google Dataproc Serverless": "dataproc_serverless",
    "Databricks": "databricks",
    "The Spark operator on Kubernetes": "spark_kubernetes",
}
"""By sections of the page."""
CONNECT = "databricks_connect"
"""This one submits nothing."""
FOLDER = ROOT / "dags" / "submitters"
ROLE = "arn:aws:iam::123456789012:role/emr"
VARIABLES = {
    "emr_cluster": "j-2AXXXXXXGAPLF",
    "emr_application": "00f1abcd",
    "emr_role": ROLE,
    "gcp_project": "lake",
    "dataproc_cluster": "spark",
    "dataproc_subnet": "kafka",
    "dataproc_account": "loader@lake.iam.gserviceaccount.com",
}
SECRETS = "KAFKA_OFFSETS_SECRETS"
Sent = list[tuple[str, dict[str, Any]]]
"""Operations and what they were asked with."""


GOOGLE = Airflow("3.3.2", "3.11", None, {"apache-airflow-providers-google": "22.8.0"}, has_pyspark=False)
"""An environment like those of the matrix."""
AT_GOOGLE = ("dataproc", "dataproc_serverless")


@pytest.fixture(scope="module")
def google() -> Path:
    """The Python of an Airflow that has Google's provider and this package's wheel."""
    return airflow_environment(GOOGLE, build()) / "bin" / "python"


@pytest.fixture
def prepared(ten: str, resolve: Resolve, context: Context, tmp_path: Path) -> dict[str, Any]:
    """What the prepare task returned, for output in a folder."""
    window = resolve(ten, at(2), at(7))
    output = ["--output", (tmp_path / "out").as_uri()]
    prepare = KafkaPrepareLoadOperator(task_id="prepare", window=window, application_args=output)
    found: dict[str, Any] = json.loads(json.dumps(prepare.execute(context)))
    return found


def submit(name: str, prepared: dict[str, Any], **variables: str) -> Any:
    """The operator that submits, as Airflow renders it."""
    return submit_of(FOLDER / f"{name}.py", prepared, VARIABLES | variables)


@pytest.fixture
def sent(context: Context, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    """What AWS is asked, which moto answers in this process; botocore refuses what isn't in a service's model."""
    from moto import mock_aws

    keys = {"conn_type": "aws", "login": "test", "password": "test", "extra": {"region_name": "us-east-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(keys))
    context["ti"].xcom_push = lambda **_: None
    found: Sent = []
    call = BaseClient._make_api_call

    def noted(client: Any, operation: str, asked: dict[str, Any]) -> Any:
        found.append((operation, asked))
        return call(client, operation, asked)

    with mock_aws():
        boto3.client("iam", "us-east-1").create_role(RoleName="glue-orders", AssumeRolePolicyDocument="{}")
        monkeypatch.setattr(BaseClient, "_make_api_call", noted)
        yield found


def asked_of(sent: Sent, operation: str) -> list[dict[str, Any]]:
    """The requests of one kind, in order."""
    return [asked for name, asked in sent if name == operation]


def test_the_page_has_a_section_for_each_dag() -> None:
    linked = {title: re.findall(r"\(\.\./\.\./dags/submitters/(\w+)\.py\)", text) for title, text in SECTIONS}
    assert {title: names[0] for title, names in linked.items() if names and names != [CONNECT]} == DAGS
    assert {file.stem for file in FOLDER.glob("*.py")} == {*DAGS.values(), CONNECT}


@pytest.mark.parametrize("name", [name for name in DAGS.values() if name not in AT_GOOGLE])
def test_each_dag_is_a_whole_pipeline(name: str, prepared: dict[str, Any]) -> None:
    refuse_half_a_pipeline(name, rendered(FOLDER / f"{name}.py", prepared, VARIABLES))


def refuse_half_a_pipeline(name: str, dag: Rendered) -> None:
    assert (dag.dag_id, dag.order) == (f"orders_{name}", ["complete", "resolve", "prepare", "submit", "verify"])
    assert dag.catchup, "by default Airflow leaves out the windows of an outage"
    assert dag.native == (name != "glue")


def test_databricks_connect_hands_its_counts_over() -> None:
    dag = dag_of(FOLDER / f"{CONNECT}.py")
    assert [task.task_id for task in dag.topological_sort()] == ["complete", "resolve", "prepare", "load", "verify"]
    verify = dag.get_task("verify")
    assert isinstance(verify, KafkaVerifyWindowOperator)
    assert verify.result.operator.task_id == "load"


@pytest.fixture
def cluster(sent: Sent) -> str:
    """Id of one on EMR."""
    roles = {"JobFlowRole": "EMR_EC2_DefaultRole", "ServiceRole": "EMR_DefaultRole"}
    return str(boto3.client("emr", "us-east-1").run_job_flow(Name="spark", Instances={}, **roles)["JobFlowId"])


def test_emr_gets_a_step_that_runs_spark_submit(
    prepared: dict[str, Any], context: Context, sent: Sent, cluster: str
) -> None:
    task = submit("emr", prepared, emr_cluster=cluster)
    task.wait_for_completion = False
    task.execute(context)
    (asked,) = asked_of(sent, "AddJobFlowSteps")
    (step,) = asked["Steps"]
    assert asked["JobFlowId"] == cluster
    assert step["HadoopJarStep"]["Args"] == ["spark-submit", "--deploy-mode", "cluster", *prepared["submit"]]


def test_emr_serverless_gets_a_job(prepared: dict[str, Any], context: Context, sent: Sent) -> None:
    client = boto3.client("emr-serverless", "us-east-1")
    application = client.create_application(name="a", releaseLabel="emr-7.5.0", type="SPARK")["applicationId"]
    client.start_application(applicationId=application)
    task = submit("emr_serverless", prepared, emr_application=application)
    task.wait_for_completion = False
    task.execute(context)
    (asked,) = asked_of(sent, "StartJobRun")
    assert (asked["applicationId"], asked["executionRoleArn"]) == (application, ROLE)
    assert asked["jobDriver"]["sparkSubmit"] == {
        "entryPoint": prepared["application"],
        "entryPointArguments": prepared["arguments"],
        "sparkSubmitParameters": prepared["options_text"],
    }


def test_glue_gets_a_job_for_each_application_and_its_run(
    prepared: dict[str, Any], context: Context, sent: Sent
) -> None:
    for application in ("0a", "0b", "0b"):
        task = submit("glue", prepared | {"application": f"s3://lake/drivers/{application}/load.py"})
        task.wait_for_completion = False
        task.execute(context)
    created, run = asked_of(sent, "CreateJob"), asked_of(sent, "StartJobRun")
    scripts = {each["Name"]: each["Command"]["ScriptLocation"] for each in created}
    assert scripts == {f"orders-{each}": f"s3://lake/drivers/{each}/load.py" for each in ("0a", "0b")}
    assert [each["JobName"] for each in run] == ["orders-0a", "orders-0b", "orders-0b"], "none is resumed for another"
    assert {each["ExecutionProperty"]["MaxConcurrentRuns"] for each in created} == {10}
    arguments = run[0]["Arguments"]
    assert arguments["--conf"].split(" --conf ") == [f"{name}={value}" for name, value in prepared["conf"].items()]
    assert arguments["--extra-py-files"] == ",".join(prepared["py_files"])


def test_botocore_refuses_what_a_service_does_not_have(
    prepared: dict[str, Any], context: Context, cluster: str
) -> None:
    task = submit("emr", prepared, emr_cluster=cluster)
    task.wait_for_completion = False
    task.steps[0]["HadoopJarStep"]["Arguments"] = []
    with pytest.raises(ParamValidationError, match="Arguments"):
        task.execute(context)


@pytest.mark.timeout(900)
def test_dataproc_gets_a_job_and_its_serverless_a_batch(prepared: dict[str, Any], google: Path) -> None:
    from google.cloud import dataproc_v1

    files = [str(FOLDER / f"{name}.py") for name in AT_GOOGLE]
    told = [str(google), rendering.__file__, json.dumps(prepared), json.dumps(VARIABLES), *files]
    answer = subprocess.run(told, cwd=LOCAL, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    dags = [Rendered(**each) for each in json.loads(answer.stdout.splitlines()[-1])]
    for name, dag in zip(AT_GOOGLE, dags, strict=True):
        refuse_half_a_pipeline(name, dag)
    request, serverless = (dag.submit for dag in dags)

    job = dataproc_v1.Job(request["job"])
    assert dataproc_v1.SubmitJobRequest(project_id=request["project_id"], region=request["region"], job=job)
    assert job.placement.cluster_name == "spark"
    assert job.pyspark_job.main_python_file_uri == prepared["application"]
    assert list(job.pyspark_job.python_file_uris) == prepared["py_files"]
    assert list(job.pyspark_job.args) == prepared["arguments"]
    assert dict(job.pyspark_job.properties) == prepared["conf"]

    batch = dataproc_v1.Batch(serverless["batch"])
    parent = f"projects/{serverless['project_id']}/locations/{serverless['region']}"
    assert dataproc_v1.CreateBatchRequest(parent=parent, batch=batch)
    assert batch.runtime_config.version == "2.2"
    assert batch.pyspark_batch.main_python_file_uri == prepared["application"]
    assert list(batch.pyspark_batch.python_file_uris) == prepared["py_files"]
    assert list(batch.pyspark_batch.args) == prepared["arguments"]
    assert dict(batch.runtime_config.properties) == prepared["conf"]
    assert all(name.startswith("spark.") for name in prepared["conf"]), "Dataproc Serverless takes no others"


def test_googles_messages_refuse_a_field_that_they_do_not_have() -> None:
    from google.cloud import dataproc_v1

    with pytest.raises(ValueError, match="python_files"):
        dataproc_v1.Job({"pyspark_job": {"python_files": []}})


def test_databricks_gets_a_run(prepared: dict[str, Any]) -> None:
    from databricks.sdk.service.jobs import JobsAPI, SubmitTask

    files = [f"s3://lake/drivers/{name}/file.zip" for name in "ab"]
    request = submit("databricks", prepared | {"py_files": files})._get_merged_json()
    assert request.keys() <= inspect.signature(JobsAPI.submit).parameters.keys()
    (task,) = request["tasks"]
    assert SubmitTask.from_dict(task).as_dict() == task, "Databricks' own types lose a field that they don't have"
    assert task["spark_python_task"] == {
        "python_file": prepared["application"],
        "parameters": prepared["arguments"],
    }
    assert task["new_cluster"]["spark_conf"] == prepared["conf"]
    assert task["new_cluster"]["spark_env_vars"] == {
        "PYTHONPATH": "/Volumes/main/kafka/drivers/a/file.zip:/Volumes/main/kafka/drivers/b/file.zip",
        SECRETS: "{{secrets/kafka/options}}",
    }


def application(task: Any) -> dict[str, Any]:
    """What Kubernetes is sent for a task."""
    from airflow.providers.cncf.kubernetes.operators.custom_object_launcher import CustomObjectLauncher

    return dict(CustomObjectLauncher("orders-1", task.namespace, None, None, task.template_body).body)


def test_the_spark_operator_gets_an_application(prepared: dict[str, Any]) -> None:
    body = application(submit("spark_kubernetes", prepared))
    assert is_an_application(body)
    spec = body.pop("spec")
    assert body == {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "orders-1", "namespace": "spark"},
    }
    assert (spec["mainApplicationFile"], spec["arguments"], spec["sparkConf"], spec["deps"]["pyFiles"]) == tuple(
        prepared[name] for name in ("application", "arguments", "conf", "py_files")
    )
    (variable,) = spec["driver"]["env"]
    assert variable == {"name": SECRETS, "valueFrom": {"secretKeyRef": {"name": "kafka-loader", "key": "options"}}}


@pytest.mark.parametrize(
    ("where", "fields"),
    [("spec", {"pyFiles": []}), ("driver", {"serviceaccount": "spark"}), ("driver", {"cores": "1"})],
    ids=["in the wrong place", "misspelt", "of another type"],
)
def test_the_spark_operators_types_refuse_a_field_that_they_do_not_have(
    where: str, fields: dict[str, Any], prepared: dict[str, Any]
) -> None:
    body = application(submit("spark_kubernetes", prepared))
    (body["spec"] if where == "spec" else body["spec"][where]).update(fields)
    assert not is_an_application(body)


@pytest.fixture
def through_livy(context: Context, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Submit a load with Livy, which gives options to every ``spark-submit``; the requests that it got."""

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    def run(prepared: dict[str, Any], options: list[str], times: int = 1) -> list[dict[str, Any]]:
        with Livy(options) as livy:
            monkeypatch.setenv("AIRFLOW_CONN_LIVY_DEFAULT", json.dumps({"conn_type": "livy", "host": livy.url}))
            task = submit("livy", prepared)
            task._polling_interval = 1
            context["ti"].xcom_push = lambda **_: None
            for _ in range(times):
                task.execute(context)
            return livy.bodies

    return run


def test_livy_gets_a_batch_each_time(
    prepared: dict[str, Any], through_livy: Callable[..., list[dict[str, Any]]]
) -> None:
    """Also once it was cleared: the store may know the batch, and a new load needs a new one. This Spark only says its
    version."""
    for body in through_livy(prepared, ["--version"], times=2):
        assert body["conf"] == prepared["conf"]
        assert (body["file"], body["pyFiles"], body["args"]) == tuple(
            prepared[name] for name in ("application", "py_files", "arguments")
        )


@pytest.mark.nightly("a driver of its own; the test above has Livy's request, test_prepare_load.py a load submitted")
@pytest.mark.timeout(900)
def test_livy_runs_it_and_verify_publishes_it(
    prepared: dict[str, Any], context: Context, through_livy: Callable[..., list[dict[str, Any]]]
) -> None:
    options = ["--master", "local[1]", "--jars", jars_of("connector"), "--conf", "spark.ui.enabled=false"]
    through_livy(prepared, options)
    verify = KafkaVerifyWindowOperator(task_id="verify", window=prepared["ref"], load=prepared)
    assert verify.execute(context)["verdict"] == "read = written = log"


@pytest.mark.nightly("a driver of its own; test_prepare_load.py has a prepared load submitted")
@pytest.mark.timeout(900)
def test_the_spark_operator_runs_it_and_verify_publishes_it(
    prepared: dict[str, Any], context: Context, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the brokers are comes from a secret of the namespace."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    brokers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    prepared["conf"] = {
        name: value for name, value in prepared["conf"].items() if not name.endswith("bootstrap.servers")
    }
    options = ["--master", "local[1]", "--jars", jars_of("connector"), "--conf", "spark.ui.enabled=false"]
    with SparkOperator(options, {"kafka-loader": {"options": json.dumps(brokers)}}) as kubernetes:
        connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(kubernetes.kube_config)}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        task = submit("spark_kubernetes", prepared)
        context["ti"].xcom_push = lambda **_: None
        context["ti"].map_index = -1
        task.execute(context | {"task_instance": context["ti"], "run_id": "r", "dag": task.dag})
        (body,) = kubernetes.bodies
        assert kubernetes.applications == {}, "it is deleted once it is over"
    assert body["spec"]["sparkConf"] == prepared["conf"]
    verify = KafkaVerifyWindowOperator(task_id="verify", window=prepared["ref"], load=prepared)
    assert verify.execute(context)["verdict"] == "read = written = log"
