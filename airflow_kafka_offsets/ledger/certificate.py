"""The certificate of a window: what is claimed about it, on what grounds, and how others check that without this
package. Reads the ledger alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_kafka_offsets.ledger.audits import report_of
from airflow_kafka_offsets.ledger.entries import Audited, Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.audits.audited_table import Columns
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows
from airflow_kafka_offsets.offsets.windows.manifest import Manifest

FORMAT = 1
_NAMED = 100
"""How many of an audit's ranges are named; its report has more."""
_VIEW = "the_table"
"""What stands for a table that only Spark's reader can read, by its options."""
_LOADED = (
    "The window's records were read from Kafka between the offsets below, at the isolation level below, and written "
    "once. The rows were counted after they were written, by partition."
)
_AUDITED = (
    "A table that something else has written was compared with the log's records between the offsets below, at the "
    "isolation level below. A complete table has one row for each record, and no other row at these offsets: then rows "
    "and records have the same number and the same checksum. An offset without a record (a transaction's marker, an "
    "aborted record, one that compaction has removed) has none; a row whose record compaction may have removed since "
    "counts as a row alone. The table of the claim says where the rows were, their columns, and their condition; a "
    "query of the_table means what the reader of Spark returns by its options."
)
_CHECKSUM = (
    "Each row adds (xor) xxHash64 of its place and xxHash64 of the place after it, seeded with Spark's 42; a place is "
    "the salt, the topic if the window has several, the partition and the offset. As many rows with the same checksum "
    "are the same rows, but for a chance of one in 2^64, unless somebody who knows the salt has made them up."
)
_COUNTED = ("topic", "partition", "rows", "checksum", "records", "records_checksum")


def certificate_of(ledger: Ledger, window: Window, issued_ms: int) -> dict[str, Any]:
    """The certificate, as plain JSON.

    :param issued_ms: when it is issued, Unix milliseconds.
    :raises LedgerCorruptError: when a file that the log names is missing, or was changed.
    """
    manifest = ledger.pinned(window).manifest
    claims = [_audit(ledger, window, manifest, each) for each in window.audits]
    if window.publication is not None:
        claims.insert(0, _load(ledger, window, manifest, window.publication))
    checksum = Checksum.of(manifest)
    return {
        "format": FORMAT,
        "pipeline": ledger.pipeline,
        "ledger_id": manifest.ledger_id,
        "window": window.name,
        "start": iso_instant(window.start_ms),
        "end": iso_instant(window.end_ms),
        "issued": iso_instant(issued_ms),
        "commit": ledger.state.number,
        "cluster_id": manifest.cluster_id,
        "topics": {topic: facts.topic_id for topic, facts in sorted(manifest.topics.items())},
        "isolation_level": str(manifest.isolation_level),
        "manifest_sha256": window.manifest,
        "offsets": window.offsets,
        "ranges": [each.log_range._asdict() for each in manifest.non_empty()],
        "claims": claims,
        "checksum": {"rule": _CHECKSUM, "salt": checksum.salt, "with_topic": checksum.with_topic, "sql": checksum.sql},
    }


def _load(ledger: Ledger, window: Window, manifest: Manifest, published: Published) -> dict[str, Any]:
    result = ledger.published_result(window.name, published)
    verdict = judge(manifest, result, window.lost)
    tables = [] if result.derived else [_relation(each) for each in result.outputs if each.output is not None]
    return {
        "claim": "loaded",
        "rule": _LOADED,
        "holds": verdict.proved,
        "verdict": str(verdict),
        "at": iso_instant(published.published_ms),
        "tables": [each.output for each in published.outputs],
        "evidence_sha256": published.result,
        "lost": [each._asdict() for each in window.lost],
        "partitions": [
            {"topic": each.topic, "partition": each.partition, "rows": each.count, "checksum": each.checksum}
            for each in result.written
        ],
        "check": check_query(tables, manifest, Columns("topic", "`partition`", "`offset`")) if tables else None,
    }


def _audit(ledger: Ledger, window: Window, manifest: Manifest, audit: Audited) -> dict[str, Any]:
    report = report_of(ledger, window, audit)
    table = report.table
    columns = table.columns._replace(topic=table.topic_of(sorted(manifest.topics)))
    return {
        "claim": "audited",
        "rule": _AUDITED,
        "holds": report.is_complete,
        "verdict": str(report),
        "at": iso_instant(audit.audited_ms),
        "tables": [audit.table],
        "evidence_sha256": audit.report,
        "partitions": [{name: getattr(each, name) for name in _COUNTED} for each in report.partitions],
        "table": table.to_json(),
        "findings": [each._asdict() for each in report.findings[:_NAMED]],
        "check": check_query([table.relation or _VIEW], manifest, columns, table.where),
    }


def _relation(output: OutputRows) -> str:
    """What stands for an output after FROM in Spark's SQL: a table's name, or its folder with its format."""
    place = str(output.output)
    return f"{output.sink}.`{place}`" if "/" in place else place


def check_query(tables: Iterable[str], manifest: Manifest, columns: Columns, where: str | None = None) -> str:
    """Spark's SQL for the rows and the checksum of each partition, which are to be those of the claim.

    :param tables: what stands after FROM.
    :param columns: with an expression for the topic.
    :param where: a condition of the rows.
    """
    only = "" if where is None else f" WHERE {where}"
    placed = " UNION ALL ".join(
        f"SELECT cast({columns.topic} AS string) AS topic, try_cast({columns.partition} AS int) AS `partition`, "
        f"try_cast({columns.offset} AS bigint) AS `offset` FROM {table}{only}"
        for table in tables
    )
    inside = " OR ".join(
        f"(topic = '{each.topic}' AND `partition` = {each.partition} AND `offset` >= {each.start_offset} "
        f"AND `offset` < {each.end_offset})"
        for each in manifest.non_empty()
    )
    return (
        f"SELECT topic, `partition`, count(*) AS rows, {Checksum.of(manifest).sql} AS checksum\n"
        f"FROM ({placed})\nWHERE {inside or 'false'}\nGROUP BY topic, `partition` ORDER BY topic, `partition`"
    )
