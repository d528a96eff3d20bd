"""A small Kubernetes with the Spark operator: the part of its API that creates SparkApplications and follows their
driver pods, in front of ``spark-submit``.

    with SparkOperator(["--master", "local[1]"], {"kafka-loader": {"options": "{}"}}) as operator:
        operator.kube_config  # the kube_config of an Airflow connection of type kubernetes

As in Kubernetes, unknown fields are dropped, and values of a wrong type are refused. The types are generated from the
operator's CRD.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

from dev.ports import HOST

Secrets = Mapping[str, Mapping[str, str]]
_APPLICATIONS = re.compile(
    r"/apis/sparkoperator\.k8s\.io/v1beta2/namespaces/([^/]+)/sparkapplications(?:/([^/]+))?(/status)?"
)
_PODS = re.compile(r"/api/v1/namespaces/([^/]+)/pods(?:/([^/]+)-driver)?(/log)?")
_CONTAINER = "spark-kubernetes-driver"


def is_an_application(body: dict[str, Any]) -> bool:
    """Whether a SparkApplication is valid for the Spark operator's CRD, according to the generated types."""
    try:
        application = SparkV1beta2SparkApplication.from_dict(body)
    except ValueError:
        return False
    return application is not None and application.to_dict() == body


@dataclass
class _Application:
    """A SparkApplication, and the driver that runs it.

    :ivar lines: the lines that the driver has printed, each with its time.
    """

    body: dict[str, Any]
    driver: subprocess.Popen[str]
    started: str = field(default_factory=lambda: _now())
    lines: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Collect the driver's output until it has ended."""
        assert self.driver.stdout is not None
        self.lines.extend(f"{_now()} {line}" for line in self.driver.stdout)

    @property
    def state(self) -> str:
        code = self.driver.poll()
        return "RUNNING" if code is None else "COMPLETED" if code == 0 else "FAILED"

    def pod(self) -> dict[str, Any]:
        """The driver's pod."""
        metadata, spec, code = self.body["metadata"], self.body["spec"], self.driver.poll()
        phase = {"RUNNING": "Running", "COMPLETED": "Succeeded", "FAILED": "Failed"}[self.state]
        ended = {"terminated": {"exitCode": code, "startedAt": self.started, "finishedAt": _now()}}
        container = {"name": _CONTAINER, "image": spec["image"]}
        status = container | {
            "imageID": "",
            "ready": code is None,
            "restartCount": 0,
            "state": {"running": {"startedAt": self.started}} if code is None else ended,
        }
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": f"{metadata['name']}-driver",
                "namespace": metadata["namespace"],
                "creationTimestamp": self.started,
                "labels": spec["driver"].get("labels", {}) | {"spark-role": "driver"},
            },
            "spec": {"containers": [container]},
            "status": {"phase": phase, "containerStatuses": [status]},
        }


class SparkOperator:
    """The server: a context manager.

    :param options: for every ``spark-submit``.
    :param secrets: the namespace's secrets, by name and key.
    :ivar bodies: the SparkApplications that were created, in order.
    """

    def __init__(self, options: Sequence[str] = (), secrets: Secrets | None = None) -> None:
        self._options = list(options)
        self._secrets = secrets or {}
        self.bodies: list[dict[str, Any]] = []
        self.applications: dict[str, _Application] = {}
        self._server = ThreadingHTTPServer((HOST, 0), type("Handler", (_Handler,), {"operator": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def kube_config(self) -> dict[str, Any]:
        """The configuration for clients."""
        name, url = "local", f"http://{HOST}:{self._server.server_port}"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for application in self.applications.values():
            application.driver.kill()
            application.driver.wait()
        self._server.shutdown()
        self._server.server_close()

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Start an application's driver.

        :returns: the application as it is stored.
        :raises ValueError: a field has the wrong type.
        """
        known = SparkV1beta2SparkApplication.from_dict(body)
        assert known is not None
        body = known.to_dict()
        spec = body["spec"]
        command = [str(Path(sys.executable).with_name("spark-submit")), *self._options]
        for name, value in spec.get("sparkConf", {}).items():
            command += ["--conf", f"{name}={value}"]
        files = spec.get("deps", {}).get("pyFiles")
        command += ["--py-files", ",".join(files)] if files else []
        command += [spec["mainApplicationFile"], *spec.get("arguments", ())]
        environment = os.environ | dict(self._variable(each) for each in spec["driver"].get("env", ()))
        driver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        application = _Application(body, driver)
        threading.Thread(target=application.read, daemon=True).start()
        self.bodies.append(body)
        self.applications[body["metadata"]["name"]] = application
        return body

    def _variable(self, variable: dict[str, Any]) -> tuple[str, str]:
        if "value" in variable:
            return variable["name"], variable["value"]
        ref = variable["valueFrom"]["secretKeyRef"]
        return variable["name"], self._secrets[ref["name"]][ref["key"]]


class _Handler(BaseHTTPRequestHandler):
    operator: SparkOperator

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self._answer(201, self.operator.create(body))
        except ValueError as error:
            self._fail(400, str(error))

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        pods, applications = _PODS.fullmatch(url.path), _APPLICATIONS.fullmatch(url.path)
        if pods and pods[2] is None:
            self._answer(200, {"kind": "PodList", "apiVersion": "v1", "items": self._pods(pods[1], url.query)})
            return
        found = pods or applications
        application = self.operator.applications.get(found[2] or "") if found else None
        if found is None or application is None:
            self._fail(404, "not found")
        elif found is applications:
            self._answer(200, application.body | {"status": {"applicationState": {"state": application.state}}})
        elif found[3]:
            self._answer_text("".join(application.lines))
        else:
            self._answer(200, application.pod())

    def do_DELETE(self) -> None:
        found = _APPLICATIONS.fullmatch(urlsplit(self.path).path)
        application = self.operator.applications.pop(found[2] or "", None) if found else None
        if application is None:
            self._fail(404, "not found")
            return
        application.driver.kill()
        application.driver.wait()
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _pods(self, namespace: str, query: str) -> list[dict[str, Any]]:
        """The drivers' pods that match the request's label selector."""
        wanted = [each for text in parse_qs(query).get("labelSelector", ()) for each in text.split(",")]
        pods = [each.pod() for each in list(self.operator.applications.values())]
        return [
            pod
            for pod in pods
            if pod["metadata"]["namespace"] == namespace
            and all(_has(pod["metadata"]["labels"], each) for each in wanted)
        ]

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        self._send(code, "application/json", json.dumps(body).encode())

    def _answer_text(self, text: str) -> None:
        self._send(200, "text/plain", text.encode())

    def _fail(self, code: int, message: str) -> None:
        self._answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message})

    def _send(self, code: int, kind: str, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: pytest shows what a test prints."""


def _has(labels: Mapping[str, str], selector: str) -> bool:
    if selector.startswith("!"):
        return selector[1:] not in labels
    name, differs, value = selector.partition("!=")
    if differs:
        return labels.get(name) != value
    name, _, value = selector.partition("=")
    return labels.get(name) == value


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
