"""The user's own confs: those of the one file that ``spark-submit`` reads, and those of the task, which override them.
``spark-submit`` also takes the deploy mode from the environment.

Everything that is passed with ``--conf`` overrides the file. So what the user gives is left out of our defaults, and
guards look here, not at the task alone. The file may hold secrets: its values stay in it, except those that ours are
appended to: Java options, packages, jars and Python files.

Ours tell a driver which windows it loads, and how it reaches Kafka.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, starmap
from pathlib import Path
from typing import Self

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.client.connection.java_settings import ALLOWED_URLS, TOKEN_ENDPOINT
from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.files import batch_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import LedgerPath, create_exclusive, uri_for_spark
from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.spark.session import conf as driver_conf
from airflow_kafka_offsets.submission.spark_program import SparkProgram

log = logging.getLogger(__name__)

DRIVER_JAVA = "spark.driver.extraJavaOptions"
DEPLOY_MODE = "spark.submit.deployMode"
_MODE_VARIABLE = "DEPLOY_MODE"
_ENDS_OPEN = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_CONF = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)")
_ESCAPED, _CONTROLS = re.compile(r"\\(.)"), {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_EARLIER_WINDOWS = 3
"""How many published windows are searched for the size of a record: a compacted or transactional one may have had no
records."""


@dataclass(frozen=True, slots=True)
class GivenConfs:
    """What a user gives for one submission.

    :param file: the file that ``spark-submit`` reads; None if there is none.
    :param in_file: the file's confs; none if it can't be read, and then ``spark-submit`` says why.
    :param in_task: the task's confs, as text. Those that OpenLineage adds when the load is submitted aren't here.
    :param in_environment: confs that the environment stands in for, which both others override.
    """

    file: Path | None = None
    in_file: Mapping[str, str] = field(default_factory=dict, repr=False)
    in_task: Mapping[str, str] = field(default_factory=dict, repr=False)
    in_environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, task: SparkSubmitOperator, program: SparkProgram) -> Self:
        """Read them.

        :param program: what submits; its ``spark-defaults.conf`` applies if the task names no ``properties_file``.
        """
        file = Path(task.properties_file) if task.properties_file else program.defaults()
        in_task = {name: str(value) for name, value in (task.conf or {}).items()}
        mode = program.variable(_MODE_VARIABLE)
        return cls(file, confs_in_file(file), in_task, {DEPLOY_MODE: mode} if mode else {})

    @property
    def confs(self) -> dict[str, str]:
        """All confs, as Spark sees them."""
        return {**self.in_environment, **self.in_file, **self.in_task}

    def source(self, name: str) -> str:
        """For messages: where a conf is set."""
        if name in self.in_task:
            return "conf="
        return str(self.file) if name in self.in_file else f"the variable {_MODE_VARIABLE}"


def not_given(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Our defaults, without those that the user sets."""
    return {name: value for name, value in own.items() if name not in given}


def confs_in_file(file: Path | None) -> dict[str, str]:
    """The confs of a properties file; none without a file, or if it can't be read."""
    if file is None or not file.is_file() or not os.access(file, os.R_OK):
        return {}
    return confs_in(file.read_text(encoding="utf-8", errors="replace"))


def confs_in(properties: str) -> dict[str, str]:
    """The confs in the text of a ``spark-defaults.conf``, which Spark reads as ``java.util.Properties``: on each line a
    name and a value, separated by blanks, ``=`` or ``:``. A backslash continues a line, or escapes a character."""
    pairs = (_CONF.fullmatch(line.strip()) for line in _lines(properties))
    return {_unescaped(pair[1]): _unescaped(pair[2]) for pair in pairs if pair is not None and pair[2]}


def _lines(properties: str) -> Iterator[str]:
    """The lines with what continues them, without comments, which nothing continues."""
    begun = ""
    for line in map(str.lstrip, properties.splitlines()):
        if begun or not line.startswith(("#", "!")):
            begun += line
            if _ENDS_OPEN.search(line):
                begun = begun[:-1]
            else:
                yield begun
                begun = ""
    yield begun


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _CONTROLS.get(found[1], found[1]), text)


def window_confs(
    windows: Sequence[tuple[Wanted, int | None]], given: Mapping[str, str], *, allow_gaps: bool
) -> dict[str, str]:
    """The confs that say what a driver reads, and which attempts it makes. If it is several windows, they name a file,
    which is stored here.

    :param windows: the windows, in order of time, each with the attempt's number; None if the driver only reads.
    :param given: the user's confs. A record's size that he gives is that of all windows.
    """
    # The size of a record in each ledger, by the windows up to the first one that is wanted.
    first = {} if driver_conf.BYTES_PER_RECORD in given else {each.ledger: each for each, _ in reversed(windows)}
    sizes = {ledger: record_size(ledger, each.window) for ledger, each in first.items()}
    told = [
        driver_conf.BatchWindow(
            each.ledger.manifest_uri(each.window),
            each.manifest,
            number,
            each.ledger.state.number,
            sizes.get(each.ledger),
        )
        for each, number in windows
    ]
    gaps = {driver_conf.ALLOW_GAPS: str(allow_gaps).lower()}
    if len(told) > 1:
        content = driver_conf.batch_to_bytes(told)
        place = windows[0][0].ledger.folder / batch_file(digest(content))
        return gaps | {driver_conf.BATCH: stored_once(place, content), driver_conf.BATCH_SHA256: digest(content)}
    ((uri, sha256, attempt, commit, size),) = told
    named = {
        driver_conf.MANIFEST: uri,
        driver_conf.SHA256: sha256,
        driver_conf.ATTEMPT: None if attempt is None else str(attempt),
        driver_conf.COMMIT: str(commit),
        driver_conf.BYTES_PER_RECORD: None if size is None else f"{size:.1f}",
    }
    return gaps | {name: value for name, value in named.items() if value is not None}


def stored_once(place: LedgerPath, content: bytes) -> str:
    """Store a file whose path names it by a hash of its content. Returns its URI.

    :raises LedgerCorruptError: another content lies there.
    """
    if not create_exclusive(place, content):
        raise LedgerCorruptError(
            f"{place} doesn't have the content that its name says. Delete it; the next try writes it again."
        )
    return uri_for_spark(place)


def default_confs(reader: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The confs of every load that the user's confs override, without those that he gives himself.

    :param reader: options of the Kafka reader that aren't secret.
    :param given: the user's confs.
    """
    read_by = {f"{driver_conf.PREFIX}{name}": value for name, value in reader.items()}
    return not_given({**driver_conf.GIVEN_BACK, **read_by}, given)


def record_size(ledger: Ledger, window: Window) -> float | None:
    """The average size of key and value in the last windows up to one, for the split plan, which only decides how many
    tasks read it; None if none of them has it. A backfill's windows resemble their neighbours, not the newest
    windows."""
    before = (
        (each.name, each.publication)
        for each in reversed(ledger.state.windows.values())
        if each.start_ms <= window.start_ms and each.offsets and each.publication is not None
    )
    try:
        results = starmap(ledger.published_result, islice(before, _EARLIER_WINDOWS))
        return next(filter(None, (result.read.bytes_per_record for result in results)), None)
    except Exception as error:  # of any kind: a load must not fail for lack of a plan
        log.info("The size of a record is unknown, so the split plan uses its default: %r", error)
        return None


def token_endpoint_allowed(reader: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Confs that allow Kafka's Java client, on driver and executors, to get tokens from the connection's endpoint;
    appended to the ``given`` Java options."""
    endpoint = reader.get(TOKEN_ENDPOINT)
    if endpoint is None:
        return {}
    options = {name: given.get(name, "") for name in (DRIVER_JAVA, "spark.executor.extraJavaOptions")}
    allows = f"-D{ALLOWED_URLS}={endpoint}"
    return {name: f"{text} {allows}".strip() for name, text in options.items() if ALLOWED_URLS not in text}
