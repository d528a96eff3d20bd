"""Kerberos on this machine: a key distribution centre (MIT's) as a child process, with tickets and keytabs.

    with Kdc() as kdc:
        kdc.keytab("kafka/localhost")
        kdc.ticket("loader")  # the file of a ticket cache

The realm lasts as long as the process, which ends when this process ends, for whatever reason. If MIT's programs are
missing, the user is told what to install.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from dev import LOCAL
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports
from dev.programs import KERBEROS, kerberos_program

REALM = "KAFKA.TEST"
GSSAPI = "gssapi==1.12.0"


class Kdc:
    """One realm: a context manager, or :meth:`start` and :meth:`close`.

    On Linux the process is bound to the thread that called :meth:`start`.
    """

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="kdc-"))
        self._server = JavaServer("The KDC", self.folder / "kdc.log")

    @property
    def krb5_conf(self) -> Path:
        """The realm's configuration, for ``KRB5_CONFIG`` or Java's ``java.security.krb5.conf``."""
        return self.folder / "krb5.conf"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Create the realm and wait until it issues tickets.

        :raises RuntimeError: it couldn't be created, or doesn't answer; the message has its output.
        """
        atexit.register(self.close)
        try:
            self._configure()
            self._run("kdb5_util", "create", "-s", "-P", "master")
            # -n: stay in the foreground.
            self._server.launch(["env", *self._environment(), _program("krb5kdc"), "-n"])
            self._server.wait_until(self._answers)
        except BaseException:
            self.close()
            raise

    def kill(self) -> None:
        """Kill the process. Its files stay."""
        self._server.kill()

    def close(self) -> None:
        """Kill the process and remove the realm."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def keytab(self, principal: str) -> Path:
        """The keys of a principal, which is created if it doesn't exist."""
        keys = self.folder / f"{principal.replace('/', '-')}.keytab"
        if not keys.exists():
            self._run("kadmin.local", "addprinc", "-randkey", principal)
            self._run("kadmin.local", "ktadd", "-norandkey", "-k", str(keys), principal)
        return keys

    def ticket(self, principal: str, life: str = "1h") -> Path:
        """The file of a new ticket cache with a principal's ticket.

        :param life: how long it is valid, such as ``10s``.
        """
        cache = self.folder / f"{principal.replace('/', '-')}-{life}.cache"
        self._run("kinit", "-l", life, "-k", "-t", str(self.keytab(principal)), "-c", str(cache), principal)
        return cache

    def _configure(self) -> None:
        # Don't canonicalize host names: this machine's resolver may have other names for it.
        self.krb5_conf.write_text(
            f"""[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {REALM} = {{
    kdc = {HOST}:{self._port}
  }}
[logging]
  kdc = STDERR
"""
        )
        (self.folder / "kdc.conf").write_text(
            f"""[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = {HOST}:{self._port}
[realms]
  {REALM} = {{
    database_name = {self.folder}/principal
    key_stash_file = {self.folder}/stash
    max_life = 1d
  }}
"""
        )

    def _environment(self) -> list[str]:
        return [f"KRB5_CONFIG={self.krb5_conf}", f"KRB5_KDC_PROFILE={self.folder / 'kdc.conf'}"]

    def _run(self, program: str, *arguments: str) -> None:
        command = ["env", *self._environment(), _program(program), *arguments]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode != 0:
            raise RuntimeError(f"{program} failed.\n{answer.stdout}{answer.stderr}")

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self._port), 1).close()
        except OSError:
            return False
        return True


def _program(name: str) -> str:
    """The path of one of MIT's programs; exits with a message if they aren't there."""
    KERBEROS.found()
    return str(kerberos_program(name))


@functools.cache
def python_client() -> Path:
    """The folder of the Python package ``gssapi``, which is compiled against the machine's library.

    :raises RuntimeError: it can't be compiled; the message has pip's output.
    """
    folder = LOCAL / f"gssapi-{sys.implementation.cache_tag}"
    if not folder.exists():
        KERBEROS.found()
        LOCAL.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=LOCAL) as temporary:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", f"{temporary}/gssapi", GSSAPI]
            answer = subprocess.run(command, capture_output=True, text=True)
            if answer.returncode != 0:
                raise RuntimeError(f"{GSSAPI} can't be installed.\n{answer.stdout}{answer.stderr}")
            (Path(temporary) / "gssapi").rename(folder)
    return folder
