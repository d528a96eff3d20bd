"""A PostgreSQL server on this machine as a child process: the database of a whole Airflow.

It listens on a free port of 127.0.0.1 and trusts everybody. It is fast rather than safe: nothing is forced to disk,
because the data is removed at the end. It ends when the ``with`` block or this process ends; on Linux even if this
process is killed.

    with Postgres() as database:
        psycopg.connect(database.url)

PostgreSQL refuses to run as root; if we are root, it runs as another user. If its programs are missing, the
user is told what to install.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import psycopg

from dev.java_server import JavaServer
from dev.ports import HOST, free_ports
from dev.programs import POSTGRESQL

UNPRIVILEGED_USERS = ("postgres", "nobody")
USER = "airflow"

# Each of Airflow's processes and tasks has its own connection pool.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "200"}


class Postgres:
    """One server with one empty database: a context manager, or :meth:`start` and :meth:`close`.

    On Linux the process is bound to the thread that called :meth:`start`: start it from a thread that lives as long as
    the server is needed.
    """

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        # Not in .local/: the other user may have no access to this repository.
        self.folder = Path(tempfile.gettempdir()) / f"postgres-{os.getpid()}-{self._port}"
        self._server = JavaServer("PostgreSQL", self.folder / "server.log")

    @property
    def url(self) -> str:
        """Address of the database, for libpq and psycopg."""
        return f"postgresql://{USER}@{HOST}:{self._port}/postgres"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Create an empty database and wait until the server accepts connections.

        :raises RuntimeError: it couldn't be created, ended, or didn't answer in time; the message has its output.
        """
        atexit.register(self.close)
        try:
            self._make_folder()
            self._run("initdb", "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync")
            settings = SETTINGS | {"listen_addresses": HOST, "port": str(self._port), "unix_socket_directories": ""}
            options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            self._server.launch(self._command("postgres", *options))
            self._server.wait_until(self._takes_connections)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the server, even if there are connections, and remove its data."""
        if self._server.is_running:
            self._run("pg_ctl", "stop", "--mode", "immediate")
        self._server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700)
        if owner := _owner():
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)

    def _run(self, program: str, *arguments: str) -> None:
        answer = subprocess.run(self._command(program, *arguments), cwd="/", capture_output=True, text=True)
        if answer.returncode != 0:
            raise RuntimeError(f"{program} failed.\n{answer.stdout}{answer.stderr}")

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*_as_another_user(), str(POSTGRESQL.found() / program), "-D", str(self.folder / "cluster"), *arguments]

    def _takes_connections(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _owner() -> pwd.struct_passwd | None:
    """The user that runs the server instead of root: the packages' own user, or else nobody. None if we aren't root."""
    if os.geteuid() != 0:
        return None
    users = {each.pw_name: each for each in pwd.getpwall()}
    return next((users[name] for name in UNPRIVILEGED_USERS if name in users), None)


def _as_another_user() -> list[str]:
    """A prefix that runs a command as another user if we are root; empty if we aren't.

    A change of user resets the signal that the process gets when its parent ends, so it is set again.
    """
    owner = _owner()
    if owner is None:
        return []
    user = ["--reuid", str(owner.pw_uid), "--regid", str(owner.pw_gid), "--clear-groups"]
    return ["setpriv", *user, "--pdeathsig", "INT"]
