"""The programs of the system that demo and tests run. Run it as a module to see that they are there:

python -m dev.programs java postgresql kerberos chromium
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from dev import debian
from dev.debian import Program
from dev.java import JAVA, java_home

_KERBEROS_PLACES = ("/usr/sbin", "/usr/lib/mit/sbin", "/usr/local/sbin")
_KERBEROS = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit", "krb5-config")
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def kerberos_program(name: str) -> Path | None:
    """One of MIT's programs; None if it isn't there."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_KERBEROS_PLACES]))
    return Path(found) if found else None


def _find_kerberos() -> Path | None:
    places = [kerberos_program(name) for name in _KERBEROS]
    return places[0] if None not in places else None


def _find_chromium() -> Path | None:
    return next((Path(found) for name in _CHROMIUM if (found := shutil.which(name))), None)


def _find_postgresql() -> Path | None:
    """The folder of its programs that is on the user's PATH, or else that of the newest version from the packages."""
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    found = [folder for folder in Path("/").glob("usr/lib/postgresql/*/bin") if (folder / "initdb").exists()]
    return max(found, key=lambda folder: int(folder.parent.name), default=None)


POSTGRESQL = Program("PostgreSQL", "tests run a whole Airflow on it", (("postgresql",),), _find_postgresql)
KERBEROS = Program(
    "MIT Kerberos",
    "tests log in with it",
    (("krb5-kdc", "krb5-admin-server", "krb5-user", "libkrb5-dev", "gcc", "libc6-dev"),),
    _find_kerberos,
)
CHROMIUM = Program("Chromium", "tests open the page in it", (("chromium", "fonts-dejavu-core"),), _find_chromium)
PROGRAMS = {"java": JAVA, "postgresql": POSTGRESQL, "kerberos": KERBEROS, "chromium": CHROMIUM}


if __name__ == "__main__":
    debian.provide(PROGRAMS[name] for name in sys.argv[1:])
    if "java" in sys.argv:
        print(f"Java: {java_home()}")
