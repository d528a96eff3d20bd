"""A small Livy: the part of its REST API that submits batches, in front of ``spark-submit``.

    with Livy(["--master", "local[1]"]) as livy:
        livy.url  # the host of an Airflow connection of type livy

Requests are passed to ``spark-submit`` as Livy does it. A field that Livy doesn't have is refused, as by Livy.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from dev.ports import HOST

_LISTS = {"pyFiles": "--py-files", "jars": "--jars", "files": "--files", "archives": "--archives"}
_TEXTS = {
    "className": "--class",
    "driverMemory": "--driver-memory",
    "executorMemory": "--executor-memory",
    "driverCores": "--driver-cores",
    "executorCores": "--executor-cores",
    "numExecutors": "--num-executors",
    "queue": "--queue",
    "name": "--name",
    "proxyUser": "--proxy-user",
}
_BATCH = re.compile(r"/batches/(\d+)(/state|/log)?")
_LINES = 100


class Livy:
    """The server: a context manager.

    :param options: for every ``spark-submit``, like an administrator's configuration.
    """

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = list(options)
        self.batches: list[subprocess.Popen[str]] = []
        self.bodies: list[dict[str, Any]] = []
        """The requests, in order."""
        self._output: list[list[str]] = []
        self._server = ThreadingHTTPServer((HOST, 0), type("Handler", (_Handler,), {"livy": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for batch in self.batches:
            batch.kill()
            batch.wait()
        self._server.shutdown()
        self._server.server_close()

    def submit(self, body: dict[str, Any]) -> dict[str, Any]:
        """Start a batch.

        :raises ValueError: the request has a field that Livy doesn't have.
        """
        unknown = body.keys() - {"file", "args", "conf", *_LISTS, *_TEXTS}
        if unknown:
            raise ValueError(f"Unrecognized fields: {sorted(unknown)}")
        command = [str(Path(sys.executable).with_name("spark-submit")), *self._options]
        for name, value in body.get("conf", {}).items():
            command += ["--conf", f"{name}={value}"]
        for name, option in _LISTS.items():
            command += [option, ",".join(body[name])] if body.get(name) else []
        for name, option in _TEXTS.items():
            command += [option, str(body[name])] if body.get(name) else []
        command += [body["file"], *map(str, body.get("args", ()))]
        batch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines: list[str] = []
        self.bodies.append(body)
        self.batches.append(batch)
        self._output.append(lines)
        threading.Thread(target=self._read, args=(batch, lines), daemon=True).start()
        return self.batch(len(self.batches) - 1)

    def batch(self, number: int) -> dict[str, Any]:
        """What Livy answers about a batch."""
        code = self.batches[number].poll()
        state = "running" if code is None else "success" if code == 0 else "dead"
        return {"id": number, "appId": None, "appInfo": {}, "state": state, "log": self._output[number][-_LINES:]}

    @staticmethod
    def _read(batch: subprocess.Popen[str], lines: list[str]) -> None:
        assert batch.stdout is not None
        lines.extend(line.rstrip("\n") for line in batch.stdout)


class _Handler(BaseHTTPRequestHandler):
    livy: Livy

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self._answer(201, self.livy.submit(body))
        except ValueError as error:
            self._answer(400, {"msg": str(error)})

    def do_GET(self) -> None:
        found = _BATCH.fullmatch(self.path.partition("?")[0])
        if found is None or int(found[1]) >= len(self.livy.batches):
            self._answer(404, {"msg": "not found"})
            return
        batch = self.livy.batch(int(found[1]))
        fields = {"/state": ("id", "state"), "/log": ("id", "log")}.get(found[2] or "", tuple(batch))
        extra = {"from": 0, "total": len(batch["log"])} if found[2] == "/log" else {}
        self._answer(200, {name: batch[name] for name in fields} | extra)

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: pytest shows what a test prints."""
