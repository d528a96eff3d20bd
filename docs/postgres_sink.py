"""A sink of your own: a table of PostgreSQL, in which one transaction replaces a window's rows.

Spark writes a stage table through JDBC, from many tasks. Then the driver, in one transaction, takes the window's old
rows away, moves the staged ones in and notes in a control table which attempt did it. Spark loads PostgreSQL's JDBC
driver anyway (``packages="org.postgresql:postgresql:42.7.8"``), and that transaction goes through the same one.

User and password are read from ``PGUSER`` and ``PGPASSWORD`` in the driver's environment: they are in no argument.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerConflictError
from airflow_kafka_offsets.spark import Attempt, Sink, Written, pinned_window

DRIVER = "org.postgresql.Driver"
CONTROL = "pipeline text, name text, revision int, attempt text, manifest_sha256 text, PRIMARY KEY (pipeline, name)"


class PostgresSink(Sink):
    """A table of PostgreSQL with the column ``window``; ``<table>_windows`` beside it says who wrote which.

    :param url: ``jdbc:postgresql://host:5432/database``.
    :param table: its plain name, in lower case.
    """

    kind = "postgres"

    def __init__(self, url: str, table: str) -> None:
        self.url, self.table = url, table

    def write(self, rows: DataFrame, attempt: Attempt) -> Written:
        stage = self.stage(attempt.name)
        # Spark runs a task again when its executor dies, also when its rows are in already: hence DISTINCT below.
        staged = rows.withColumn("window", F.lit(attempt.window))
        staged.write.jdbc(self.url, stage, mode="overwrite", properties=properties())
        columns = ", ".join(f'"{name}"' for name in staged.columns)
        with Transaction(rows.sparkSession, self.url) as transaction:
            transaction.run("SELECT pg_advisory_xact_lock(hashtext(?))", self.table)
            transaction.run(f"CREATE TABLE IF NOT EXISTS {self.table} (LIKE {stage})")
            transaction.run(f"CREATE TABLE IF NOT EXISTS {self.table}_windows ({CONTROL})")
            taken = transaction.run(
                f"INSERT INTO {self.table}_windows AS old VALUES (?, ?, ?, ?, ?) ON CONFLICT (pipeline, name) "
                "DO UPDATE SET (revision, attempt, manifest_sha256) = "
                "(excluded.revision, excluded.attempt, excluded.manifest_sha256) "
                "WHERE old.revision <= excluded.revision",
                *(attempt.pipeline, attempt.window, attempt.revision, attempt.name, attempt.manifest_sha256),
            )
            if taken:
                transaction.run(f'DELETE FROM {self.table} WHERE "window" = ?', attempt.window)
                transaction.run(
                    f'INSERT INTO {self.table} ({columns}) SELECT DISTINCT ON (topic, partition, "offset") {columns} '
                    f"FROM {stage}"
                )
            for name in (attempt.name, *attempt.earlier):
                transaction.run(f"DROP TABLE IF EXISTS {self.stage(name)}")
        if not taken:
            raise LedgerConflictError(f"{self.table} holds a newer revision of window {attempt.window}.")
        return Written(self.table, attempt.name)

    def read(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        return spark.read.jdbc(self.url, self.table, properties=properties()).where(F.col("window") == attempt.window)

    def stage(self, attempt: str) -> str:
        """Each attempt's own table; attempts' names may be longer than PostgreSQL's may be."""
        return f"{self.table}_stage_{hashlib.sha256(attempt.encode()).hexdigest()[:16]}"


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

    def run(self, sql: str, *arguments: object) -> int:
        """Run a statement; how many rows it changed."""
        statement = self._connection.prepareStatement(sql)
        for place, each in enumerate(arguments, 1):
            statement.setObject(place, each)
        statement.execute()
        return int(statement.getUpdateCount())

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self._connection.commit()
        self._connection.close()


def properties() -> dict[str, str]:
    """How to log in."""
    return {"user": os.environ["PGUSER"], "password": os.environ.get("PGPASSWORD", ""), "driver": DRIVER}


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    try:
        window = pinned_window(session)
        print(window.publish(window.read(), PostgresSink(*sys.argv[1:3])))
    except KafkaOffsetsError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    finally:
        session.stop()
