"""The missing records, loaded into a table of their own, for the owner of the audited table to merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import UnprovenError
from airflow_kafka_offsets.offsets.audits.report import WrittenMissing
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.spark.session.connect import files_of
from airflow_kafka_offsets.spark.session.files import hadoop_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_kafka_offsets.offsets.windows.manifest import Manifest

_PLACES = "topic string, partition int, offset bigint"
_KEY = ["topic", "partition", "offset"]
_MASK = (1 << 64) - 1


def write_missing(missing: DataFrame, records: DataFrame, folder: str, manifest: Manifest) -> WrittenMissing:
    """Write the missing records as Parquet, with all columns of Spark's Kafka source, to a folder
    ``window=<window>/missing=<rows>-<checksum>``; and prove that they are just those that are missing. Whoever audits
    again before they were merged finds them there.

    :param missing: topic, partition and offset of those that are to be written.
    :param records: the log's records, with these among them.
    :raises UnprovenError: when the records written are others.
    :raises ConfigurationError: when the folder can't be written.
    """
    spark, wanted = missing.sparkSession, _sums(missing, manifest)
    name = f"missing={wanted[0]}-{wanted[1] & _MASK:016x}"
    place = f"{hadoop_uri(folder)}/window={manifest.window}/{name}"
    files_of(spark).make_folder(place)
    stored = spark.read.schema(_PLACES).parquet(place)
    if _sums(stored, manifest) == wanted:
        return WrittenMissing(place, *wanted)
    records.join(missing, _KEY, "left_semi").write.mode("overwrite").parquet(place)
    written = _sums(spark.read.schema(_PLACES).parquet(place), manifest)
    if wanted != written:
        raise UnprovenError(
            f"{written[0]} records were written to {place}, and {wanted[0]} are missing: Kafka or the table has "
            "changed meanwhile. Don't merge them; delete the folder, and audit again."
        )
    return WrittenMissing(place, *written)


def _sums(rows: DataFrame, manifest: Manifest) -> tuple[int, int]:
    """Number and checksum of rows, over all partitions."""
    (found,) = rows.agg(F.count(F.lit(1)), F.expr(Checksum.of(manifest).sql)).collect()
    return found[0], found[1] or 0
