"""An S3 server in a separate process, whose bucket has a folder's files: ``python -m … PORT BUCKET FOLDER``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from dev.ports import HOST, free_ports
from dev.s3_server import S3Application, make_server

BUCKET = "bench"
_START_S = 120.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The endpoint of a server that has the folder's files."""
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


def main() -> None:
    """Fill the server, then serve."""
    from moto.s3.models import s3_backends

    port, bucket, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    backend = s3_backends["123456789012"]["aws"]
    backend.create_bucket(bucket, "us-east-1")
    for path in folder.rglob("*"):
        if path.is_file():
            backend.put_object(bucket, str(path.relative_to(folder)), path.read_bytes())
    make_server(S3Application(), port).serve_forever()


if __name__ == "__main__":
    main()
