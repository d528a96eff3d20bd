"""The confs that tell a driver which windows it loads, and how it reaches Kafka."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice, starmap

from airflow_kafka_offsets.client.connection.java_settings import ALLOWED_URLS, TOKEN_ENDPOINT
from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.files import batch_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import uri_for_spark
from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.spark.session import conf as driver_conf
from airflow_kafka_offsets.submission.given_confs import not_given
from airflow_kafka_offsets.submission.quick_java import DRIVER_JAVA

log = logging.getLogger(__name__)

_EARLIER_WINDOWS = 3
"""How many published windows are searched for the size of a record: a compacted or transactional one may have had no
records."""


def window_confs(
    windows: Sequence[tuple[Wanted, int | None]], given: Mapping[str, str], *, allow_gaps: bool
) -> dict[str, str]:
    """The confs that say what a driver reads, and which attempts it makes. If it is several windows, they name a file,
    which is stored here.

    :param windows: the windows, in order of time, each with the attempt's number; None if the driver only reads.
    :param given: the user's confs. A record's size that he gives is that of all windows.
    """
    sizes = {} if driver_conf.BYTES_PER_RECORD in given else _record_sizes([each for each, _ in windows])
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
        return gaps | _stored(windows[0][0].ledger, driver_conf.batch_to_bytes(told))
    ((uri, sha256, attempt, commit, size),) = told
    made = {} if attempt is None else {driver_conf.ATTEMPT: str(attempt)}
    manifest = {driver_conf.MANIFEST: uri, driver_conf.SHA256: sha256}
    return gaps | manifest | made | {driver_conf.COMMIT: str(commit)} | _size_conf(size)


def _stored(ledger: Ledger, content: bytes) -> dict[str, str]:
    """Store a batch. Returns the confs that name it."""
    sha256 = digest(content)
    if not ledger.files.create(batch_file(sha256), content):
        raise LedgerCorruptError(
            f"{ledger.uri}/{batch_file(sha256)} doesn't have the content that its name says. Delete it; the next try "
            "writes it again."
        )
    uri = uri_for_spark(ledger.folder / batch_file(sha256))
    return {driver_conf.BATCH: uri, driver_conf.BATCH_SHA256: sha256}


def default_confs(reader: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The confs of every load that the user's confs override, without those that he gives himself.

    :param reader: options of the Kafka reader that aren't secret.
    :param given: the user's confs.
    """
    read_by = {f"{driver_conf.PREFIX}{name}": value for name, value in reader.items()}
    return not_given({**driver_conf.GIVEN_BACK, **read_by}, given)


def _size_conf(size: float | None) -> dict[str, str]:
    return {} if size is None else {driver_conf.BYTES_PER_RECORD: f"{size:.1f}"}


def _record_sizes(wanted: Sequence[Wanted]) -> dict[Ledger, float | None]:
    """The size of a record in each ledger, by the windows up to the first one that is wanted."""
    first = {each.ledger: each for each in reversed(wanted)}
    return {ledger: record_size(ledger, each.window) for ledger, each in first.items()}


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
