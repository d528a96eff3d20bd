"""A table's owner: the ledger whose windows it holds, by its identity in a property of the table.

The pipeline's name stands beside it and decides nothing: a second ledger may use the same one, and Spark hides values
of properties that match a pattern (``spark.redaction.regex``, ``spark.sql.redaction.options.regex``), as ``hourly``
holds ``url``. An identity is 32 hex digits, which none of Spark's own patterns match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.manifest import LEDGER_ID, PIPELINE_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_offsets.spark.sink import Attempt

PROPERTY = "kafka-offsets."
"""How the names of our properties begin, of a table and of Iceberg's snapshots."""
LEDGER = PROPERTY + "ledger"
PIPELINE = PROPERTY + "pipeline"
_PART = r"(?:\w+|`(?:[^`]|``)+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")


@dataclass(frozen=True, slots=True)
class TableOwner:
    """Whose windows a table holds.

    :param ledger_id: the ledger's identity.
    :param pipeline: its pipeline's name, for people; None where Spark hides it.
    """

    ledger_id: str
    pipeline: str | None

    @classmethod
    def of(cls, spark: SparkSession, sql_name: str) -> TableOwner | None:
        """Ask a table; None for one that no ledger has loaded yet.

        :param sql_name: what :func:`sql_name` gave.
        :raises LedgerConflictError: when Spark doesn't show the property's value: nobody can tell then.
        """
        rows = spark.sql(f"SHOW TBLPROPERTIES {sql_name}").collect()
        properties = {str(each["key"]): str(each["value"]) for each in rows}
        found, pipeline = properties.get(LEDGER), properties.get(PIPELINE, "")
        if found is None:
            return None
        if not LEDGER_ID.fullmatch(found):
            raise LedgerConflictError(
                f"Spark shows the property {LEDGER} of {sql_name} as {found!r}, which is no ledger's identity, so that "
                "nobody can tell whose the table is. Where the value is redacted, change spark.redaction.regex or "
                f"spark.sql.redaction.options.regex so that it matches neither {LEDGER} nor 32 hex digits."
            )
        return cls(found, pipeline if PIPELINE_NAME.fullmatch(pipeline) else None)

    def __str__(self) -> str:
        return f"ledger {self.ledger_id}" + (f" (pipeline {self.pipeline})" if self.pipeline else "")


def claim(spark: SparkSession, sql_name: str, attempt: Attempt) -> None:
    """Make a table of nobody's this ledger's."""
    spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({_properties(attempt.ledger_id, attempt.pipeline)})")


def require_owner(spark: SparkSession, sql_name: str, ledger_id: str, pipeline: str) -> None:
    """Refuse a table of another ledger, or of none.

    :param ledger_id: who asks.
    :param pipeline: its pipeline's name.
    :raises LedgerConflictError: naming both, and how a table is handed over.
    """
    owner = TableOwner.of(spark, sql_name)
    if owner is None or owner.ledger_id != ledger_id:
        raise LedgerConflictError(
            f"{sql_name} is a table of {owner or 'no ledger'}, by its property {LEDGER}, and this is ledger "
            f"{ledger_id} (pipeline {pipeline}): each would replace the other's windows of the same time. A table has "
            "one ledger: load into another table. Where the ledger was moved, copy its whole folder, pipeline.json "
            "included, as its identity is in there. Where the other one is lost for good, hand the table over: ALTER "
            f"TABLE {sql_name} SET TBLPROPERTIES ({_properties(ledger_id, pipeline)}); windows that are loaded again "
            "then take the place of its rows."
        )


def sql_name(kind: str, table: str) -> str:
    """A table in SQL.

    :param table: its path, or its name in a catalog.
    :raises LedgerCorruptError: for what is neither, as a changed ledger may hold.
    """
    if "/" in table:
        quoted = table.replace("`", "``")
        return f"{kind}.`{quoted}`"
    if not _NAME.fullmatch(table):
        raise LedgerCorruptError(f"{table!r} is no table's name: parts with dots between them, or in backquotes.")
    return table


def properties(attempt: Attempt) -> dict[str, str]:
    """What a table that an attempt makes says of its owner."""
    return {LEDGER: attempt.ledger_id, PIPELINE: attempt.pipeline}


def _properties(ledger_id: str, pipeline: str) -> str:
    return f"'{LEDGER}' = '{ledger_id}', '{PIPELINE}' = '{pipeline}'"
