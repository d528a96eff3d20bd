"""The confs by which Airflow tells a Spark run what to read. A few short strings, never the offsets themselves.

One argument of a command ends at 128 KiB on Linux, and Airflow logs the command: a manifest's URI and hash always fit.
Imports nothing of pyspark, so that the Airflow side can use the names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from uuid import uuid4

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import compact_instant, now_ms

PREFIX = "spark.kafkaOffsets."
MANIFEST = PREFIX + "manifest"
"""URI of the window's ``manifest.json``, as Hadoop reads it; ``s3://`` is taken for ``s3a://``."""
SHA256 = PREFIX + "sha256"
"""Hex digest that the manifest's bytes must have."""
ATTEMPT = PREFIX + "attempt"
"""Name of this try, used by no other: letters, digits and ``. _ + -``, since it becomes a folder's name. The driver
makes one up when it isn't set."""
ALLOW_GAPS = PREFIX + "allowGaps"
"""``true`` when offsets without a record are expected, as transactions leave them. Default ``false``."""
KAFKA = PREFIX + "kafka."
"""What follows ``spark.kafkaOffsets.`` is an option of Spark's Kafka reader: ``kafka.bootstrap.servers`` and so on."""
SECRETS_VARIABLE = "KAFKA_OFFSETS_SECRETS"
"""Environment variable with more such options as a JSON object: those that must be in no command line and no event
log."""

_ATTEMPT_NAME = re.compile(r"[A-Za-z0-9._+-]+")
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class RunConf:
    """What a run was told.

    :param manifest_uri: where the manifest is.
    :param sha256: the hash that it must have.
    :param attempt: the run's own name.
    :param kafka: options of the Kafka reader, secrets included; kept out of ``repr``.
    :param allow_gaps: whether offsets without a record are expected.
    """

    manifest_uri: str
    sha256: str
    attempt: str
    kafka: Mapping[str, str] = field(repr=False)
    allow_gaps: bool = False

    @classmethod
    def read(cls, confs: Mapping[str, str], environ: Mapping[str, str]) -> Self:
        """Read Spark's confs and the driver's environment.

        :raises ConfigurationError: naming what is missing or malformed; never a secret's value.
        """
        plain = {name.removeprefix(PREFIX): value for name, value in confs.items() if name.startswith(KAFKA)}
        return cls(
            manifest_uri=_required(confs, MANIFEST),
            sha256=_required(confs, SHA256),
            attempt=attempt_name(confs.get(ATTEMPT) or new_attempt(now_ms())),
            kafka=plain | _secrets(environ.get(SECRETS_VARIABLE)),
            allow_gaps=_boolean(ALLOW_GAPS, confs.get(ALLOW_GAPS, "false")),
        )


def new_attempt(started_ms: int) -> str:
    """A name that no other try has, in order of time.

    :param started_ms: when it begins, Unix milliseconds.
    """
    return f"{compact_instant(started_ms)}-{uuid4().hex[:8]}"


def attempt_name(name: str) -> str:
    """The name, when it can be a folder's name on every store.

    :raises ConfigurationError: when it can't.
    """
    if not _ATTEMPT_NAME.fullmatch(name):
        raise ConfigurationError(f"{ATTEMPT} may hold letters, digits and the signs . _ + -, not {name!r}.")
    return name


def _required(confs: Mapping[str, str], name: str) -> str:
    value = confs.get(name)
    if not value:
        raise ConfigurationError(
            f"The conf {name} is not set. Submit the job with Airflow's operator, or pass --conf {name}=…."
        )
    return value


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ConfigurationError(f"The conf {name} is true or false, not {text!r}.")
    return _BOOLEANS[text.lower()]


def _secrets(text: str | None) -> dict[str, str]:
    """The secret options. Errors must not quote the text, and ``from None`` keeps it out of tracebacks."""
    try:
        secrets = json.loads(text or "{}")
    except ValueError:
        raise ConfigurationError(f"The environment variable {SECRETS_VARIABLE} is not JSON.") from None
    if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
        raise ConfigurationError(f"The environment variable {SECRETS_VARIABLE} must be a JSON object of strings.")
    return secrets
