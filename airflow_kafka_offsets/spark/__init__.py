"""What the Spark driver runs: the pinned read, the audit, the publish, and a ready-made load application.

Imports pyspark, the standard library and ``airflow_kafka_offsets.{errors,offsets}`` only, since it ships as a small
zip. Nothing is re-exported here, so that Airflow can import the names of the confs without importing pyspark::

    from airflow_kafka_offsets.spark.pinned import pinned_window
    from airflow_kafka_offsets.spark.publish import publish
    from airflow_kafka_offsets.spark.published import read_published
"""
