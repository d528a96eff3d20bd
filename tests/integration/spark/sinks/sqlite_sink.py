"""A sink of one's own, as somebody writes it who has read the docstring of ``Sink`` and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Attempt, Sink


class SqliteSink(Sink):
    """A file of SQLite."""

    kind = "sqlite"

    def __init__(self, path: str) -> None:
        self.place = path

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        records = [(attempt.key, *row) for row in rows.select("topic", "partition", "offset", "value").collect()]
        with closing(self._open()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            attempt.require_later(self._name(database, attempt))
            database.execute("DELETE FROM records WHERE key = ?", [attempt.key])
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", records)
            database.execute("INSERT OR REPLACE INTO names VALUES (?, ?)", [attempt.key, attempt.name])
        return self.place

    def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
        with closing(self._open()) as database:
            query = "SELECT topic, place, position, value FROM records WHERE key = ?"
            rows, name = database.execute(query, [attempt.key]).fetchall(), self._name(database, attempt)
        return spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary"), name

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(str(self.place), timeout=60, isolation_level=None)
        database.execute("CREATE TABLE IF NOT EXISTS records (key, topic, place, position, value)")
        database.execute("CREATE TABLE IF NOT EXISTS names (key PRIMARY KEY, name)")
        return database

    def _name(self, database: sqlite3.Connection, attempt: Attempt) -> str | None:
        found = database.execute("SELECT name FROM names WHERE key = ?", [attempt.key]).fetchone()
        return found[0] if found else None
