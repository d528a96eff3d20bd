"""A prepared load: what any submitter of Spark needs for one window, as small JSON without secrets."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.storage import StoragePath
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.driver_bundle import BUNDLE_NAME, bundle, short_hash, stored

VERSION = 1
_REMOTE = "://"


@dataclass(frozen=True, slots=True)
class Program:
    """What a driver runs: URIs of its files, including this package's bundle, and Maven coordinates."""

    application: str
    py_files: Sequence[str]
    packages: Sequence[str]
    arguments: Sequence[str]

    def arguments_hash(self, conf: Mapping[str, str], *, allow_gaps: bool) -> str:
        """A hash of everything that decides which rows are written, including the user's confs. Stored files have their
        hashes in their URIs. This package's bundle is left out: a new version of it writes the same rows."""
        own = [uri for uri in self.py_files if not uri.endswith(f"/{BUNDLE_NAME}")]
        given = [self.application, own, self.packages, self.arguments, sorted(conf.items()), allow_gaps]
        return hashlib.sha256(json.dumps(given, ensure_ascii=False, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """What a submitter passes on.

    :param ref: the window's revision to load.
    :param load: names the load; each driver submitted for it makes its attempt's name from it.
    :param conf: Spark's confs, including the packages.
    """

    ref: WindowRef
    load: str
    conf: Mapping[str, str]
    program: Program

    def to_json(self) -> dict[str, Any]:
        """The XCom, in all its forms: a dictionary, words, and one string."""
        conf_args = [word for name, value in self.conf.items() for word in ("--conf", f"{name}={value}")]
        options = [*conf_args, "--py-files", ",".join(self.program.py_files)]
        forms = {
            "conf_args": conf_args,
            "options_text": shlex.join(options),
            "submit": [*options, self.program.application, *self.program.arguments],
        }
        own = {"version": VERSION, "window": self.ref.window, "ref": self.ref.to_json(), "load": self.load}
        return own | {"conf": dict(self.conf)} | asdict(self.program) | forms

    @classmethod
    def from_json(cls, fields: Any) -> Self:
        """Read the XCom; refuse anything else."""
        try:
            if fields["version"] == VERSION:
                program = Program(**{name: fields[name] for name in Program.__slots__})
                return cls(WindowRef.from_json(fields["ref"]), fields["load"], fields["conf"], program)
        except (KeyError, TypeError, ConfigurationError):
            pass
        raise ConfigurationError(
            f"load= takes what KafkaPrepareLoadOperator returned (its .output), not {fields!r}."
        ) from None


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Where a cluster reads Python files: a folder on a store that it reaches, and how it spells S3."""

    folder: StoragePath
    s3_scheme: str

    def bundle(self) -> str:
        """URI of this package's bundle; stored once for each version."""
        return self._store(BUNDLE_NAME, bundle())

    def python_file(self, place: str) -> str:
        """URI of a user's file: unchanged if it is a URI already, otherwise stored. Refused if the file is missing or
        empty."""
        if _REMOTE in place and not place.startswith("file://"):
            return place
        path = Path(place.removeprefix("file://"))
        if not path.is_file():
            raise ConfigurationError(f"{place} is neither a file on this worker nor a URI that the cluster reads.")
        content = path.read_bytes()
        if not content:
            raise ConfigurationError(f"{place} is empty: give a Python file with something in it, or leave it out.")
        return self._store(path.name, content)

    def _store(self, name: str, content: bytes) -> str:
        return stored(self.folder / short_hash(content) / name, content, self.s3_scheme)
