"""A sink of your own: a table of PostgreSQL, in which one transaction replaces a window's rows.

Spark writes a stage table through JDBC, from many tasks. Then the driver, in one transaction, looks into a control
table for the number of the attempt whose rows are there, and puts the staged ones in their place, unless that number is
higher. Spark loads PostgreSQL's JDBC driver anyway (``packages="org.postgresql:postgresql:42.7.8"``), and that
transaction goes through the same one.

User and password are read from ``PGUSER`` and ``PGPASSWORD`` in the driver's environment: they are in no argument.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, KafkaOffsetsError, LedgerConflictError
from airflow_kafka_offsets.spark import Attempt, Sink, pinned_window

DRIVER = "org.postgresql.Driver"


class PostgresSink(Sink):
    """A table of PostgreSQL with the column ``window``, for one ledger; ``<table>_windows`` beside it is the control
    table.

    :param url: ``jdbc:postgresql://host:5432/database``.
    :param table: its plain name, in lower case.
    """

    kind = "postgres"

    def __init__(self, url: str, table: str) -> None:
        self.url, self.table = url, table

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        stage = f"{self.table}_stage_{attempt.number}_{attempt.run}"
        # Spark runs a task again when its executor dies, also when its rows are in already: hence DISTINCT below.
        staged = rows.withColumn("window", F.lit(attempt.window))
        staged.write.jdbc(self.url, stage, mode="overwrite", properties=properties())
        columns = ", ".join(f'"{name}"' for name in staged.columns)
        with Transaction(rows.sparkSession, self.url) as transaction:
            transaction.run("SELECT pg_advisory_xact_lock(hashtext(?))", self.table)
            transaction.run(f"CREATE TABLE IF NOT EXISTS {self.table} (LIKE {stage})")
            transaction.run(
                f"CREATE TABLE IF NOT EXISTS {self.table}_windows "
                '("window" text PRIMARY KEY, attempt bigint, run text, ledger_id text, pipeline text)'
            )
            self.require_ours(transaction, attempt)
            if self.number_there(transaction, attempt) < attempt.number:
                transaction.run(f'DELETE FROM {self.table} WHERE "window" = ?', attempt.window)
                transaction.run(
                    f"INSERT INTO {self.table} ({columns}) "
                    f'SELECT DISTINCT ON (topic, partition, "offset") {columns} FROM {stage}'
                )
                transaction.run(f'DELETE FROM {self.table}_windows WHERE "window" = ?', attempt.window)
                ours = (attempt.window, attempt.number, attempt.run, attempt.ledger_id, attempt.pipeline)
                transaction.run(f"INSERT INTO {self.table}_windows VALUES (?, ?, ?, ?, ?)", *ours)
            transaction.run(f"DROP TABLE {stage}")
        return self.table

    def number_there(self, transaction: Transaction, attempt: Attempt) -> int:
        """The number of the attempt whose rows are there; 0 if there are none. It may be this attempt's: another driver
        of it was faster.

        :raises CommitConflictError: it began later than this one.
        """
        query = f'SELECT attempt FROM {self.table}_windows WHERE "window" = ?'
        number = max((number for (number,) in transaction.rows(query, attempt.window)), default=0)
        if number > attempt.number:
            raise CommitConflictError(
                f"{self.table} holds window {attempt.window} by attempt {number}, which began after {attempt.number}."
            )
        return number

    def require_ours(self, transaction: Transaction, attempt: Attempt) -> None:
        """Refuse a table of another ledger. Its pipeline's name tells nothing: it may be the same."""
        columns = f"SELECT ledger_id, pipeline FROM {self.table}_windows"
        for ledger_id, pipeline in transaction.rows(f"{columns} WHERE ledger_id <> ? LIMIT 1", attempt.ledger_id):
            raise LedgerConflictError(
                f"{self.table} is a table of ledger {ledger_id} (pipeline {pipeline}), and this is ledger "
                f"{attempt.ledger_id} (pipeline {attempt.pipeline}): load into another table. If the other ledger "
                f"is lost for good: UPDATE {self.table}_windows SET ledger_id = '{attempt.ledger_id}', attempt = 0."
            )

    def current(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        with Transaction(spark, self.url) as transaction:
            self.require_ours(transaction, attempt)
        return spark.read.jdbc(self.url, self.table, properties=properties()).where(F.col("window") == attempt.window)


class Transaction:
    """One transaction from the driver: committed at the end of the ``with`` block, or rolled back."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        jvm: Any = spark._jvm
        java = jvm.java.util.Properties()
        for name, value in properties().items():
            java.setProperty(name, value)
        # Not java.sql.DriverManager: it doesn't see drivers that Spark has loaded from --packages.
        self._connection = jvm.org.postgresql.Driver().connect(url, java)
        self._connection.setAutoCommit(False)

    def __enter__(self) -> Transaction:
        return self

    def run(self, sql: str, *arguments: object) -> Any:
        """Run a statement; JDBC's statement, which has its outcome."""
        statement = self._connection.prepareStatement(sql)
        for place, each in enumerate(arguments, 1):
            statement.setObject(place, each)
        statement.execute()
        return statement

    def rows(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Run a query; what it finds."""
        result = self.run(sql, *arguments).getResultSet()
        count = result.getMetaData().getColumnCount()
        found = []
        while result.next():
            found.append(tuple(result.getObject(place) for place in range(1, count + 1)))
        return found

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self._connection.commit()
        self._connection.close()


def properties() -> dict[str, str]:
    """How to log in.

    :raises ConfigurationError: nobody says as whom.
    """
    if "PGUSER" not in os.environ:
        raise ConfigurationError("Set PGUSER, and PGPASSWORD where one is asked for, in the driver's environment.")
    return {"user": os.environ["PGUSER"], "password": os.environ.get("PGPASSWORD", ""), "driver": DRIVER}


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    try:
        window = pinned_window(session)
        print(window.write(window.read(), PostgresSink(*sys.argv[1:3])).rows_written, "rows")
    except KafkaOffsetsError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    finally:
        session.stop()
