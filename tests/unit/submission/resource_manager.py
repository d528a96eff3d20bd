"""YARN's REST API, as far as the Spark provider asks it, on a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

APPLICATION_ID = "application_1700000000000_0001"


class ResourceManager:
    """What it answers, and what it was asked.

    :param address: of its web application.
    :ivar states: the application's state, one answer after the other, the last one for good; ``unknown`` where there is
        no such application.
    :ivar asked: how often it was asked about the application.
    :ivar killed: the applications that were to end.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.states: list[str] = []
        self.asked = 0
        self.killed: list[str] = []

    def state(self) -> str:
        """The next answer."""
        self.asked += 1
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


@contextmanager
def resource_manager(*states: str) -> Iterator[ResourceManager]:
    """One that runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state = manager.state()
            final = "SUCCEEDED" if state == "FINISHED" else "UNDEFINED"
            body = json.dumps({"app": {"state": state, "finalStatus": final}}).encode()
            known = self.path == f"/ws/v1/cluster/apps/{APPLICATION_ID}" and state != "unknown"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert told == {"state": "KILLED"}
            manager.killed.append(self.path.split("/")[-2])
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        manager = ResourceManager(f"http://127.0.0.1:{server.server_port}")
        manager.states = list(states)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield manager
        finally:
            server.shutdown()
            thread.join()


def connection_to(manager: ResourceManager) -> str:
    """A Spark connection that deploys drivers there, as Airflow reads it from the environment."""
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": manager.address}
    return json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})
