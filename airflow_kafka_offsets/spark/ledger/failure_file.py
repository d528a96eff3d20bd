"""Failures noted: the driver writes beside the window why its attempt failed, for the task that waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.proof.driver_notes import FAILURES, note_of
from airflow_kafka_offsets.spark.files.hadoop import HadoopFiles


@contextmanager
def failures_noted(spark: SparkSession, folder: str, attempt: str) -> Iterator[None]:
    """Note an error of this package that ends the block, and raise it on. An error of the application's own isn't
    noted: nobody knows what is in it.

    :param spark: the session; one of Spark Connect doesn't reach the ledger, and notes nothing.
    :param folder: the window's folder in the ledger.
    :param attempt: the attempt's name.
    """
    try:
        yield
    except KafkaOffsetsError as error:
        with suppress(Exception):  # the error itself is what counts
            HadoopFiles(spark).write(f"{folder}/{FAILURES}/{attempt}.json", note_of(error).to_bytes())
        raise
