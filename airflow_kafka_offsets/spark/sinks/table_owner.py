"""A table's owner: the ledger whose windows the table holds, identified by a table property. Functions here take a
table's name as :func:`sql_name` returns it.

The pipeline's name is stored too, but decides nothing: a second ledger may use the same name, and Spark hides the
values of properties that match a pattern (``spark.redaction.regex``, ``spark.sql.redaction.options.regex``), as
``hourly`` matches ``url``. An identity is 32 hex digits, which none of Spark's own patterns match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.windows.ledger_names import LEDGER_ID, PIPELINE_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = "kafka-offsets."
"""Prefix of the names of our properties, for tables and for Iceberg's snapshots."""
LEDGER = PROPERTY + "ledger"
PIPELINE = PROPERTY + "pipeline"
_PART = r"(?:\w+|`(?:[^`]|``)+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")


@dataclass(frozen=True, slots=True)
class Owner:
    """The ledger whose windows a table holds.

    :param ledger_id: its identity, created with it.
    :param pipeline: its pipeline's name, for people; None when unknown.
    """

    ledger_id: str
    pipeline: str | None

    def __str__(self) -> str:
        return f"ledger {self.ledger_id}" + (f" (pipeline {self.pipeline})" if self.pipeline else "")


def table_properties(spark: SparkSession, sql_name: str) -> dict[str, str]:
    """All properties of a table."""
    return {str(row["key"]): str(row["value"]) for row in spark.sql(f"SHOW TBLPROPERTIES {sql_name}").collect()}


def table_owner(properties: Mapping[str, str], sql_name: str) -> Owner | None:
    """The ledger whose windows a table holds, by its properties; None if no ledger has loaded the table yet. Refused if
    Spark doesn't show the property's value, because then nobody can tell."""
    found, pipeline = properties.get(LEDGER), properties.get(PIPELINE, "")
    if found is None:
        return None
    if not LEDGER_ID.fullmatch(found):
        raise LedgerConflictError(
            f"Spark shows the property {LEDGER} of {sql_name} as {found!r}, which is not a ledger's identity, so "
            "nobody can tell whose the table is. If the value is redacted, change spark.redaction.regex or "
            f"spark.sql.redaction.options.regex so that it matches neither {LEDGER} nor 32 hex digits."
        )
    return Owner(found, pipeline if PIPELINE_NAME.fullmatch(pipeline) else None)


def claim(spark: SparkSession, sql_name: str, ours: Owner, properties: Mapping[str, str]) -> None:
    """Give a table without an owner to this ledger; refuse another ledger's table, as :func:`require_owner`.

    :param properties: the table's, as they were just read.
    """
    if table_owner(properties, sql_name) is None:
        spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({_in_sql(ours)})")
        properties = table_properties(spark, sql_name)
    _require_owner(properties, sql_name, ours)


def require_owner(spark: SparkSession, sql_name: str, ours: Owner) -> None:
    """Refuse a table that belongs to another ledger, or to none.

    :raises LedgerConflictError: naming both, and how to hand a table over.
    """
    _require_owner(table_properties(spark, sql_name), sql_name, ours)


def _require_owner(properties: Mapping[str, str], sql_name: str, ours: Owner) -> None:
    owner = table_owner(properties, sql_name)
    if owner is None or owner.ledger_id != ours.ledger_id:
        raise LedgerConflictError(
            f"{sql_name} is a table of {owner or 'no ledger'} according to its property {LEDGER}, and this is {ours}: "
            "each would replace the other's windows of the same time. A table has one ledger: load into another table. "
            "If the ledger was moved, copy its whole folder: its identity is in its log's first commit. If "
            f"the other one is lost for good, assign the table to this ledger: ALTER TABLE {sql_name} SET "
            f"TBLPROPERTIES ({_in_sql(ours)}); windows that are loaded again then take the place of its rows."
        )


def sql_name(kind: str, table: str) -> str:
    """A table's name in SQL, from its path or its name in a catalog.

    :raises LedgerCorruptError: for anything else, such as from a ledger that was tampered with.
    """
    if "/" in table:
        quoted = table.replace("`", "``")
        return f"{kind}.`{quoted}`"
    if not _NAME.fullmatch(table):
        raise LedgerCorruptError(f"{table!r} is not a table name: parts with dots between them, or in backquotes.")
    return table


def properties(ours: Owner) -> dict[str, str]:
    """The table properties that name its owner."""
    return {LEDGER: ours.ledger_id} | ({PIPELINE: ours.pipeline} if ours.pipeline else {})


def _in_sql(ours: Owner) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties(ours).items())
