"""A sink of your own: a table of PostgreSQL, in which one transaction replaces a window's rows.

Spark writes a stage table through JDBC, from many tasks. Then the driver, in one transaction, looks into a control
table for the name of the attempt whose rows are there, and puts the staged ones in their place, unless those have to
stay. Spark loads PostgreSQL's JDBC driver anyway (``packages="org.postgresql:postgresql:42.7.8"``), and that
transaction goes through the same one.

User and password are read from ``PGUSER`` and ``PGPASSWORD`` in the driver's environment: they are in no argument.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark import Attempt, KafkaOffsetsError, Sink, pinned_window

DRIVER = "org.postgresql.Driver"


class PostgresSink(Sink):
    """A table of PostgreSQL with the column ``stored_under``; ``<table>_keys`` beside it is the control table.

    :param url: ``jdbc:postgresql://host:5432/database``.
    :param table: its plain name, in lower case.
    """

    kind = "postgres"

    def __init__(self, url: str, table: str) -> None:
        self.url, self.table, self.place = url, table, f"{url}/{table}"

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        stage = f"{self.table}_stage_{attempt.number}_{attempt.run}"
        # Spark runs a task again when its executor dies, also when its rows are in already: hence DISTINCT below.
        staged = rows.withColumn("stored_under", F.lit(attempt.key))
        staged.write.jdbc(self.url, stage, mode="overwrite", properties=properties())
        columns = ", ".join(f'"{name}"' for name in staged.columns)
        with Transaction(rows.sparkSession, self.url) as transaction:
            transaction.run("SELECT pg_advisory_xact_lock(hashtext(?))", self.table)
            transaction.run(f"CREATE TABLE IF NOT EXISTS {self.table} (LIKE {stage})")
            transaction.run(f"CREATE TABLE IF NOT EXISTS {self.table}_keys (stored_under text PRIMARY KEY, name text)")
            attempt.require_later(self.name_there(transaction, attempt))
            transaction.run(f"DELETE FROM {self.table} WHERE stored_under = ?", attempt.key)
            transaction.run(
                f"INSERT INTO {self.table} ({columns}) "
                f'SELECT DISTINCT ON (topic, partition, "offset") {columns} FROM {stage}'
            )
            transaction.run(f"DELETE FROM {self.table}_keys WHERE stored_under = ?", attempt.key)
            transaction.run(f"INSERT INTO {self.table}_keys VALUES (?, ?)", attempt.key, attempt.name)
            transaction.run(f"DROP TABLE {stage}")
        return self.table

    def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
        with Transaction(spark, self.url) as transaction:
            name = self.name_there(transaction, attempt)
        rows = spark.read.jdbc(self.url, self.table, properties=properties())
        return rows.where(F.col("stored_under") == attempt.key), name

    def name_there(self, transaction: Transaction, attempt: Attempt) -> str | None:
        """The name that is stored under an attempt's key."""
        found = transaction.rows(f"SELECT name FROM {self.table}_keys WHERE stored_under = ?", attempt.key)
        return found[0][0] if found else None


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
