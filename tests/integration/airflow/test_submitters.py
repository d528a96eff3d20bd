"""The submitters of ``docs/guides/submitters.md``: each block there is run, rendered, and held to its service's model.

Livy's is run to the end, against a server of its REST interface that calls ``spark-submit``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from airflow.sdk import DAG
from botocore.validate import ParamValidator

from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from dev import ROOT
from dev.livy import Livy
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import Context, Resolve, at

PAGE = ROOT / "docs" / "guides" / "submitters.md"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = {title: BLOCK.findall(text) for title, text in SECTION.findall(PAGE.read_text(encoding="utf-8"))}
ROLE = "arn:aws:iam::123456789012:role/emr"
VARIABLES = {"emr_cluster": "j-2AXXXXXXGAPLF", "emr_application": "00f1abcd", "emr_role": ROLE}


@pytest.fixture
def prepared(ten: str, resolve: Resolve, context: Context, tmp_path: Path) -> dict[str, Any]:
    """What the prepare task returned, for output in a folder."""
    window = resolve(ten, at(2), at(7))
    output = ["--output", (tmp_path / "out").as_uri()]
    prepare = KafkaPrepareLoadOperator(task_id="prepare", window=window, application_args=output)
    found: dict[str, Any] = json.loads(json.dumps(prepare.execute(context)))
    return found


def rendered(title: str, prepared: dict[str, Any], *, native: bool = True) -> Any:
    """The operator of a section's block, as Airflow renders it.

    :param native: the Dag has ``render_template_as_native_obj``.
    """
    (block,) = BLOCKS[title]
    names: dict[str, Any] = {}
    with DAG("submitters", schedule=None, render_template_as_native_obj=native) as dag:
        exec(block, names)  # the docs' own
    ti = SimpleNamespace(xcom_pull=lambda task_ids: prepared)
    variables = SimpleNamespace(value=SimpleNamespace(**VARIABLES))
    names["submit"].render_template_fields({"ti": ti, "var": variables}, dag.get_template_env())
    return names["submit"]


def refused(service: str, operation: str, request: dict[str, Any]) -> str:
    """What boto's model of a service finds wrong with a request; empty when nothing is."""
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    return str(ParamValidator().validate(request, model.input_shape).generate_report())


def test_each_submitter_of_the_page_is_tested_here() -> None:
    shown = [title for title, blocks in BLOCKS.items() if blocks]
    assert shown == ["Amazon EMR", "Amazon EMR Serverless", "AWS Glue", "Livy"]


def test_emr_gets_a_step_that_runs_spark_submit(prepared: dict[str, Any]) -> None:
    submit = rendered("Amazon EMR", prepared)
    assert refused("emr", "AddJobFlowSteps", {"JobFlowId": submit.job_flow_id, "Steps": submit.steps}) == ""
    (step,) = submit.steps
    assert step["HadoopJarStep"]["Args"] == ["spark-submit", "--deploy-mode", "cluster", *prepared["submit"]]


def test_emr_serverless_gets_a_job(prepared: dict[str, Any]) -> None:
    submit = rendered("Amazon EMR Serverless", prepared)
    request = {
        "applicationId": submit.application_id,
        "clientToken": submit.client_request_token,
        "executionRoleArn": submit.execution_role_arn,
        "jobDriver": submit.job_driver,
    }
    assert refused("emr-serverless", "StartJobRun", request) == ""
    job = submit.job_driver["sparkSubmit"]
    assert job == {
        "entryPoint": prepared["application"],
        "entryPointArguments": prepared["arguments"],
        "sparkSubmitParameters": prepared["options_text"],
    }


def test_glue_gets_a_job_and_its_run(prepared: dict[str, Any]) -> None:
    submit = rendered("AWS Glue", prepared, native=False)
    command = {"Name": "glueetl", "ScriptLocation": submit.script_location}
    job = {"Name": submit.job_name, "Role": submit.iam_role_name, "Command": command, **submit.create_job_kwargs}
    assert refused("glue", "CreateJob", job) == ""
    assert refused("glue", "StartJobRun", {"JobName": submit.job_name, "Arguments": submit.script_args}) == ""
    confs = submit.script_args["--conf"].split(" --conf ")
    assert confs == [f"{name}={value}" for name, value in prepared["conf"].items()]
    assert submit.script_args["--extra-py-files"] == ",".join(prepared["py_files"])


@pytest.mark.timeout(300)
def test_livy_runs_it_and_verify_publishes_it(
    prepared: dict[str, Any], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    options = ["--master", "local[1]", "--jars", jars_of("connector"), "--conf", "spark.ui.enabled=false"]
    with Livy(options) as livy:
        monkeypatch.setenv("AIRFLOW_CONN_LIVY_DEFAULT", json.dumps({"conn_type": "livy", "host": livy.url}))
        submit = rendered("Livy", prepared)
        submit._polling_interval, submit.durable = 1, False  # a task state store comes with Airflow alone
        context["ti"].xcom_push = lambda **_: None
        submit.execute(context)
        (body,) = livy.bodies
    assert body["conf"] == prepared["conf"]
    assert (body["file"], body["pyFiles"], body["args"]) == tuple(
        prepared[name] for name in ("application", "py_files", "arguments")
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=prepared["ref"], load=prepared)
    assert verify.execute(context)["verdict"] == "read = written = log"
