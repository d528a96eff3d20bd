"""The confs by which Airflow tells a Spark run what to read. A few short strings, never the offsets themselves.

One argument of a command ends at 128 KiB on Linux, and Airflow logs the command: a manifest's URI and hash always fit.
Imports nothing of pyspark, so that the Airflow side can use the names.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import compact_instant, now_ms
from airflow_kafka_offsets.offsets.proof.publication import ATTEMPT_NAME, OF_LOAD
from airflow_kafka_offsets.offsets.proof.split_plan import MAX_RECORDS, MIN_PARTITIONS

PREFIX = "spark.kafkaOffsets."
MANIFEST = PREFIX + "manifest"
"""URI of the window's ``manifest.json``, as Hadoop reads it; ``s3://`` is taken for ``s3a://``."""
SHA256 = PREFIX + "sha256"
"""Hex digest that the manifest's bytes must have."""
ATTEMPT = PREFIX + "attempt"
"""Name of this try, used by no other: letters, digits and ``. _ + -``, since it becomes a folder's name. The driver
makes one up when it isn't set."""
LOAD = PREFIX + "load"
"""Name of a load that somebody else submits, perhaps more than once: each driver makes its attempt's name from it."""
NOTE_KEY = PREFIX + "noteSecret"
"""What the driver signs its note in the ledger with, made for one attempt: who may write to the ledger doesn't know it.
It opens nothing else. Spark redacts confs whose names hold ``secret``."""
ALLOW_GAPS = PREFIX + "allowGaps"
"""``true`` when offsets without a record are expected, as transactions leave them. Default ``false``."""
EXTREME_TIMESTAMPS = PREFIX + "extremeTimestamps"
"""Stretches with timestamps that Spark can't read, as ``topic-partition:offset``, or ``:first-last``, with commas
between: the driver reads them itself, with null for such timestamps. Those of other windows are ignored."""
BYTES_PER_RECORD = PREFIX + "bytesPerRecord"
"""What a record has on average, for the split plan; the plan has a default of its own."""
KAFKA = PREFIX + "kafka."
"""What follows ``spark.kafkaOffsets.`` is an option of Spark's Kafka reader: ``kafka.bootstrap.servers`` and so on. So
are ``spark.kafkaOffsets.minPartitions`` and ``spark.kafkaOffsets.maxRecordsPerPartition``."""
SECRETS_VARIABLE = "KAFKA_OFFSETS_SECRETS"
"""Environment variable with more such options as a JSON object, or that in Base64: those that must be in no command
line and no event log."""
SECRETS = PREFIX + "secrets"
"""The same as a conf, for YARN alone, where a properties file brings it and a variable would be written into each
container's launch script, which YARN copies into its logs. Spark redacts confs whose names hold ``secret``."""
GIVEN_BACK = {
    f"spark.kafka.consumer.{name}": value
    for name, value in {
        "fetchedData.cache.timeout": "200ms",
        "fetchedData.cache.evictorThreadRunInterval": "100ms",
        "cache.timeout": "200ms",
        "cache.evictorThreadRunInterval": "100ms",
    }.items()
}
"""Spark's own confs by which executors give back what a task fetched, and its consumer, moments after its end. Spark's
default is five minutes; see :mod:`airflow_kafka_offsets.spark.kafka.reader`."""

_BOOLEANS = {"true": True, "false": False}
_READER = (KAFKA, PREFIX + MIN_PARTITIONS, PREFIX + MAX_RECORDS)
"""How the names of confs begin that are options of the reader."""


@dataclass(frozen=True, slots=True)
class RunConf:
    """What a run was told, by the confs above.

    :param kafka: options of the Kafka reader, secrets included; kept out of ``repr``.
    :param bytes_per_record: None when nobody knows.
    :param note_key: None where no operator has submitted it.
    """

    manifest_uri: str
    sha256: str
    attempt: str
    kafka: Mapping[str, str] = field(repr=False)
    allow_gaps: bool = False
    bytes_per_record: float | None = None
    extreme_timestamps: str = ""
    note_key: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, confs: Mapping[str, str], environ: Mapping[str, str]) -> Self:
        """Read Spark's confs and the driver's environment.

        :raises ConfigurationError: naming what is missing or malformed; never a secret's value.
        """
        plain = {name.removeprefix(PREFIX): value for name, value in confs.items() if name.startswith(_READER)}
        return cls(
            manifest_uri=_required(confs, MANIFEST),
            sha256=_required(confs, SHA256),
            attempt=_attempt_name(confs),
            kafka=plain | _secrets(environ.get(SECRETS_VARIABLE) or confs.get(SECRETS)),
            allow_gaps=_boolean(ALLOW_GAPS, confs.get(ALLOW_GAPS, "false")),
            bytes_per_record=_positive(BYTES_PER_RECORD, confs.get(BYTES_PER_RECORD)),
            extreme_timestamps=confs.get(EXTREME_TIMESTAMPS, ""),
            note_key=confs.get(NOTE_KEY),
        )


def new_attempt() -> str:
    """A name that no other try has, in order of the times that they start."""
    return f"{compact_instant(now_ms())}-{uuid4().hex[:8]}"


def _attempt_name(confs: Mapping[str, str]) -> str:
    """The attempt's name: that of the conf, or one of its own for a driver of a load. It becomes a folder's name."""
    load = confs.get(LOAD)
    name = confs.get(ATTEMPT) or (f"{load}{OF_LOAD}{uuid4().hex[:8]}" if load else new_attempt())
    if not ATTEMPT_NAME.fullmatch(name):
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
        raise ConfigurationError(f"The conf {name} must be true or false, not {text!r}.")
    return _BOOLEANS[text.lower()]


def _positive(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise ConfigurationError(f"The conf {name} must be a number above 0, not {text!r}.")
    return number


def secrets_text(secrets: Mapping[str, str]) -> str:
    """What :data:`SECRETS_VARIABLE` or :data:`SECRETS` is to hold. Base64 has nothing that a shell or a properties file
    reads as its own."""
    return b64encode(json.dumps(dict(secrets)).encode()).decode()


def _secrets(text: str | None) -> dict[str, str]:
    """The secret options. Errors must not quote the text, and ``from None`` keeps it out of tracebacks."""
    text = (text or "{}").strip()
    try:
        secrets = json.loads(text if text.startswith("{") else b64decode(text, validate=True))
    except ValueError:
        raise ConfigurationError(
            f"{SECRETS_VARIABLE} (or the conf {SECRETS}) is neither JSON nor JSON in Base64."
        ) from None
    if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
        raise ConfigurationError(f"{SECRETS_VARIABLE} (or the conf {SECRETS}) must be a JSON object of strings.")
    return secrets
