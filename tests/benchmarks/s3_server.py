"""An S3 server in a process of its own, with a folder's files as its bucket: ``python -m … PORT BUCKET FOLDER``."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from dev.ports import HOST, free_ports

BUCKET = "bench"
_START_S = 120.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The endpoint of a server that holds the folder's files."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "tests.benchmarks.s3_server", str(port), BUCKET, str(folder)]
    with subprocess.Popen(command) as server:
        try:
            endpoint, deadline = f"http://{HOST}:{port}", time.monotonic() + _START_S
            while not _answers(endpoint):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the S3 server did not start")
                time.sleep(0.1)
            yield endpoint
        finally:
            server.kill()


def _answers(endpoint: str) -> bool:
    try:
        return httpx.get(f"{endpoint}/{BUCKET}?max-keys=1").is_success
    except httpx.TransportError:
        return False


def _list_by_index(backend: Any) -> None:
    """S3 lists a prefix from a sorted index; moto goes through all keys of the bucket for each request."""
    scan, names = backend.list_objects, []

    def list_objects(bucket: Any, prefix: str | None, *args: Any, **kwargs: Any) -> Any:
        nonlocal names
        if len(names) != len(bucket.keys):
            names = sorted(bucket.keys)
        found = names[bisect_left(names, prefix or "") : bisect_left(names, (prefix or "") + chr(sys.maxunicode))]
        part = SimpleNamespace(keys={name: bucket.keys[name] for name in found})
        return scan(part, prefix, *args, **kwargs)

    backend.list_objects = list_objects


def main() -> None:
    """Fill the server, then serve."""
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    port, bucket, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    backend = s3_backends["123456789012"]["aws"]
    backend.create_bucket(bucket, "us-east-1")
    for path in folder.rglob("*"):
        if path.is_file():
            backend.put_object(bucket, str(path.relative_to(folder)), path.read_bytes())
    _list_by_index(backend)
    server = ThreadedMotoServer(ip_address=HOST, port=port, verbose=False)
    server.start()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
