"""PostgreSQL as a process of ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from dev import ROOT
from dev.postgres import Postgres
from tests.patience import PATIENCE_S


class TestPostgres:
    def test_keeps_what_is_written_and_ends_though_somebody_is_connected(self) -> None:
        with Postgres() as database:
            with psycopg.connect(database.url) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
            left = psycopg.connect(database.url)
            assert left.execute("SELECT answer FROM kept").fetchall() == [(42,)]
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")
        assert not database.folder.exists()

    def test_ends_with_a_killed_parent(self) -> None:
        with subprocess.Popen([sys.executable, "-c", _START], cwd=ROOT, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            folder = Path(parent.stdout.readline().decode().strip())
            server = psutil.Process(int((folder / "cluster" / "postmaster.pid").read_text().split()[0]))
            parent.kill()
        _, alive = psutil.wait_procs([server], timeout=PATIENCE_S)
        assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []
        shutil.rmtree(folder)


_START = """
import signal
from dev.postgres import Postgres

database = Postgres()
database.start()
print(database.folder, flush=True)
signal.pause()
"""
