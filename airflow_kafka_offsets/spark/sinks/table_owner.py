"""A table's owner: the ledger whose windows it holds, by its identity in a property of the table. A table is named
here as :func:`sql_name` names it.

The pipeline's name stands beside it and decides nothing: a second ledger may use the same one, and Spark hides values
of properties that match a pattern (``spark.redaction.regex``, ``spark.sql.redaction.options.regex``), as ``hourly``
holds ``url``. An identity is 32 hex digits, which none of Spark's own patterns match.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.windows.ledger_names import LedgerIdentity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = "kafka-offsets."
"""How the names of our properties begin, of a table and of Iceberg's snapshots."""
LEDGER = PROPERTY + "ledger"
PIPELINE = PROPERTY + "pipeline"
_PART = r"(?:\w+|`(?:[^`]|``)+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")


def table_owner(spark: SparkSession, sql_name: str) -> LedgerIdentity | None:
    """Whose windows a table holds; None when no ledger has loaded it yet. Refused where Spark doesn't show the
    property's value: nobody can tell then."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {sql_name}").collect()
    properties = {str(row["key"]): str(row["value"]) for row in rows}
    told = properties.get(LEDGER)
    if told is None:
        return None
    found = LedgerIdentity.of({"ledger_id": told, "pipeline": properties.get(PIPELINE)})
    if found is None:
        raise LedgerConflictError(
            f"Spark shows the property {LEDGER} of {sql_name} as {told!r}, which is not a ledger's identity, so nobody "
            "can tell whose the table is. If the value is redacted, change spark.redaction.regex or "
            f"spark.sql.redaction.options.regex so that it matches neither {LEDGER} nor 32 hex digits."
        )
    return found


def claim(spark: SparkSession, sql_name: str, ours: LedgerIdentity) -> None:
    """Make a table of nobody's this ledger's; refuse another one's, as :func:`require_owner`."""
    if table_owner(spark, sql_name) is None:
        spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({_in_sql(ours)})")
    require_owner(spark, sql_name, ours)


def require_owner(spark: SparkSession, sql_name: str, ours: LedgerIdentity) -> None:
    """Refuse a table of another ledger, or of none.

    :raises LedgerConflictError: naming both, and how a table is handed over.
    """
    owner = table_owner(spark, sql_name)
    if owner is None or owner.ledger_id != ours.ledger_id:
        raise LedgerConflictError(
            f"{sql_name} is a table of {owner or 'no ledger'} according to its property {LEDGER}, and this is {ours}: "
            "each would replace the other's windows of the same time. A table has one ledger: load into another table. "
            "If the ledger was moved, copy its whole folder, pipeline.json included, as its identity is in there. If "
            f"the other one is lost for good, assign the table to this ledger: ALTER TABLE {sql_name} SET "
            f"TBLPROPERTIES ({_in_sql(ours)}); windows that are loaded again then take the place of its rows."
        )


def sql_name(kind: str, table: str) -> str:
    """A table in SQL, by its path or its name in a catalog.

    :raises LedgerCorruptError: for what is neither, as a changed ledger may hold.
    """
    if "/" in table:
        quoted = table.replace("`", "``")
        return f"{kind}.`{quoted}`"
    if not _NAME.fullmatch(table):
        raise LedgerCorruptError(f"{table!r} is not a table name: parts with dots between them, or in backquotes.")
    return table


def properties(ours: LedgerIdentity) -> dict[str, str]:
    """What a table says of its owner."""
    return {LEDGER: ours.ledger_id} | ({PIPELINE: ours.pipeline} if ours.pipeline else {})


def _in_sql(ours: LedgerIdentity) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties(ours).items())
