"""The confs by which Airflow tells a Spark run what to read: a few short strings, never the offsets themselves.

Linux limits one command-line argument to 128 KiB, and Airflow logs the command: a manifest's URI and hash always fit.
Imports nothing from pyspark, so that Airflow's side can use the names.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError
from airflow_kafka_offsets.offsets.proof.split_plan import MAX_RECORDS, MIN_PARTITIONS
from airflow_kafka_offsets.offsets.windows.manifest import digest

PREFIX = "spark.kafkaOffsets."
MANIFEST = PREFIX + "manifest"
"""URI of the window's manifest, as Hadoop reads it; ``s3://`` is read as ``s3a://``."""
SHA256 = PREFIX + "sha256"
"""Hex digest that the manifest's bytes must have."""
ATTEMPT = PREFIX + "attempt"
"""Number of the attempt that the driver makes, from the ledger's log. A driver without one may read the window, but not
write it."""
COMMIT = PREFIX + "commit"
"""Number of a commit that the ledger's log has: it saves a listing. Default 0."""
BATCH = PREFIX + "batch"
"""URI of the file that names the windows, if there are several; the four confs above aren't set then."""
BATCH_SHA256 = PREFIX + "batchSha256"
"""Hex digest that this file's bytes must have."""
ALLOW_GAPS = PREFIX + "allowGaps"
"""``true`` if offsets without a record are expected, as transactions leave them. Default ``false``."""
BYTES_PER_RECORD = PREFIX + "bytesPerRecord"
"""Average bytes of a record, for the split plan, which has its own default."""
REGISTRY = PREFIX + "registry."
"""The part after ``spark.kafkaOffsets.`` is an option of the schema registry, such as ``registry.url``:
:mod:`airflow_kafka_offsets.spark.values.registry`."""
KAFKA = PREFIX + "kafka."
"""The part after ``spark.kafkaOffsets.`` is an option of Spark's Kafka reader, such as ``kafka.bootstrap.servers``.
``spark.kafkaOffsets.minPartitions`` and ``spark.kafkaOffsets.maxRecordsPerPartition`` are reader options too."""
SECRETS_VARIABLE = "KAFKA_OFFSETS_SECRETS"
"""Environment variable with more options of the reader and the registry, as a JSON object or its Base64: those that
must not appear in a command line or an event log."""
SECRETS = PREFIX + "secrets"
"""The same options as a conf, only for YARN, where a properties file brings it. YARN would write a variable into each
container's launch script, and copy that into its logs. Spark redacts confs whose names contain ``secret``."""
GIVEN_BACK = {
    f"spark.kafka.consumer.{name}": value
    for name, value in {
        "fetchedData.cache.timeout": "200ms",
        "fetchedData.cache.evictorThreadRunInterval": "100ms",
        "cache.timeout": "200ms",
        "cache.evictorThreadRunInterval": "100ms",
    }.items()
}
"""Spark's own confs that make executors release the records that a task fetched, and its consumer, moments after the
task ends. Spark's default is five minutes."""

_OF_REGISTRY = REGISTRY.removeprefix(PREFIX)
_BOOLEANS = {"true": True, "false": False}
_BATCH_FORMAT = 1
_READER = (KAFKA, PREFIX + MIN_PARTITIONS, PREFIX + MAX_RECORDS)
"""Prefixes of the confs that are reader options."""


class BatchWindow(NamedTuple):
    """A window of a batch: the windows that one application loads, in order of time. If there are several, a small file
    in a ledger names them, and confs name the file. The fields are those of :class:`RunConf`."""

    manifest_uri: str
    sha256: str
    attempt: int | None
    commit: int
    bytes_per_record: float | None = None


def batch_to_bytes(windows: Sequence[BatchWindow]) -> bytes:
    """The file's content."""
    return json.dumps({"format": _BATCH_FORMAT, "windows": windows}, separators=(",", ":"), ensure_ascii=False).encode()


def batch_from_bytes(content: bytes | None, sha256: str, uri: str) -> list[BatchWindow]:
    """The windows that a file names.

    :param content: None when there is no file.
    :param sha256: the hash that the content must have.
    :param uri: where it is, for messages.
    :raises LedgerCorruptError: when there is none, or it is another one.
    """
    if content is None:
        raise LedgerCorruptError(f"There is no batch at {uri}: submit the load again.")
    if digest(content) != sha256:
        raise LedgerCorruptError(f"The batch at {uri} was changed: its sha256 is {digest(content)}, expected {sha256}.")
    fields = json.loads(content)
    if fields["format"] != _BATCH_FORMAT:
        raise LedgerCorruptError(
            f"The batch at {uri} has format {fields['format']!r}; this version reads {_BATCH_FORMAT}."
        )
    return [BatchWindow(*each) for each in fields["windows"]]


@dataclass(frozen=True, slots=True)
class RunConf:
    """What a run was told, by the confs above.

    :param attempt: None if it may only read.
    :param kafka: options of the Kafka reader, secrets included; kept out of ``repr``.
    :param registry: options of the schema registry, secrets included; none if the run has none.
    :param bytes_per_record: None if unknown.
    """

    manifest_uri: str
    sha256: str
    attempt: int | None
    kafka: Mapping[str, str] = field(repr=False)
    commit: int = 0
    allow_gaps: bool = False
    bytes_per_record: float | None = None
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, confs: Mapping[str, str], environ: Mapping[str, str]) -> Self:
        """Read Spark's confs and the driver's environment.

        :raises ConfigurationError: naming what is missing or malformed, or if the run has several windows; never a
            secret's value.
        """
        if BATCH in confs and MANIFEST not in confs:
            raise ConfigurationError(
                "This application was submitted for several windows, and pinned_window(spark) opens one. Load them all "
                "with load_windows(spark, load_one), or in a loop over pinned_windows(spark)."
            )
        told = {
            name.removeprefix(PREFIX): value for name, value in confs.items() if name.startswith((*_READER, REGISTRY))
        } | _secrets(environ.get(SECRETS_VARIABLE) or confs.get(SECRETS))
        of_registry = {name: value for name, value in told.items() if name.startswith(_OF_REGISTRY)}
        return cls(
            manifest_uri=_required(confs, MANIFEST),
            sha256=_required(confs, SHA256),
            attempt=_number(ATTEMPT, confs.get(ATTEMPT)),
            commit=_number(COMMIT, confs.get(COMMIT)) or 0,
            kafka={name: value for name, value in told.items() if name not in of_registry},
            registry=of_registry,
            allow_gaps=_boolean(ALLOW_GAPS, confs.get(ALLOW_GAPS, "false")),
            bytes_per_record=_positive(BYTES_PER_RECORD, confs.get(BYTES_PER_RECORD)),
        )

    @classmethod
    def of_batch(
        cls, confs: Mapping[str, str], environ: Mapping[str, str], windows: Sequence[BatchWindow]
    ) -> list[Self]:
        """What a run was told of each of several windows. Raises as :meth:`read`.

        :param windows: the windows that the confs' file names.
        """
        named = {MANIFEST: windows[0].manifest_uri, SHA256: windows[0].sha256}
        shared = cls.read({**confs, **named}, environ)
        own = ({name: value for name, value in each._asdict().items() if value is not None} for each in windows)
        return [replace(shared, **each) for each in own]


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


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ConfigurationError(f"The conf {name} must be the number of a commit in the ledger's log, not {text!r}.")
    return int(text)


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
    """The value for :data:`SECRETS_VARIABLE` or :data:`SECRETS`. Base64 has no character that is special in a shell or
    a properties file."""
    return b64encode(json.dumps(dict(secrets)).encode()).decode()


def _secrets(text: str | None) -> dict[str, str]:
    """Parse the secret options. Errors must not quote the text, and ``from None`` keeps it out of tracebacks."""
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
