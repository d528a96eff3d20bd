"""A prepared load: what any submitter of Spark needs for one window or several, as small JSON without secrets."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.storage import LedgerPath
from airflow_kafka_offsets.references import WindowRefs
from airflow_kafka_offsets.submission.application import BUNDLE_NAME, bundle
from airflow_kafka_offsets.submission.confs import stored_once

VERSION = 1
_REMOTE = "://"
_HASH_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Program:
    """What a driver runs: URIs of its files, including this package's bundle, and Maven coordinates."""

    application: str
    py_files: Sequence[str]
    packages: Sequence[str]
    arguments: Sequence[str]


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """What a submitter passes on.

    :param refs: the windows to load.
    :param attempts: number of the attempt that drivers make at each; that of the published one if it isn't to be
        loaded, and None if it can't be.
    :param needs_driver: whether something is to be loaded.
    :param conf: Spark's confs, including the packages.
    """

    refs: WindowRefs
    attempts: Sequence[int | None]
    needs_driver: bool
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
        refs, windows = self.refs, [ref.window for ref in self.refs.refs]
        own: dict[str, Any] = {"version": VERSION, "window": refs.of(windows), "ref": refs.to_json()}
        own |= {"attempt": refs.of(self.attempts)}
        of_driver = {"needs_driver": self.needs_driver, "conf": dict(self.conf)}
        return own | of_driver | asdict(self.program) | forms

    @classmethod
    def from_json(cls, fields: Any) -> Self:
        """Read the XCom; refuse anything else."""
        try:
            if fields["version"] == VERSION:
                refs, program = WindowRefs.from_json(fields["ref"]), {name: fields[name] for name in Program.__slots__}
                attempts = fields["attempt"] if refs.is_list else [int(fields["attempt"])]
                if len(attempts) == len(refs.refs):
                    return cls(refs, attempts, bool(fields["needs_driver"]), fields["conf"], Program(**program))
        except (KeyError, TypeError, ValueError, ConfigurationError):
            pass
        raise ConfigurationError(
            f"load= takes what KafkaPrepareLoadOperator returned (its .output), not {fields!r}."
        ) from None


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Where a cluster reads Python files: a folder on a store that it reaches. Their URIs spell S3 as the folder's own
    does: ``s3`` or ``s3a``."""

    folder: LedgerPath

    def bundle(self) -> str:
        """URI of this package's bundle; stored once for each version."""
        return self._stored(BUNDLE_NAME, bundle())

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
        return self._stored(path.name, content)

    def _stored(self, name: str, content: bytes) -> str:
        """Store a file once, in a folder named by a hash of its content. Returns its URI."""
        return stored_once(self.folder / hashlib.sha256(content).hexdigest()[:_HASH_LENGTH] / name, content)
