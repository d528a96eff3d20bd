"""Exact Kafka offsets for Airflow: list, wait on, keep, and hand to Spark.

What a Dag imports, it imports from here::

    from airflow_kafka_offsets import KafkaPipeline, kafka_window_load

Kafka's own answers are in :mod:`.client`, what a Spark job uses is in :mod:`.spark`, and errors are in :mod:`.errors`;
:mod:`.public` lists every name.

Imports nothing from Airflow, which loads this package while it is still loading itself.
"""

import sys
from typing import TYPE_CHECKING

from airflow_kafka_offsets.public import offered

if sys.version_info < (3, 10):  # noqa: UP036  # a Spark driver may run any Python version
    raise ImportError(
        f"This is Python {sys.version.split()[0]} ({sys.executable}), and airflow-kafka-offsets needs 3.10 or newer on "
        "Spark's driver: set the conf spark.pyspark.python, or PYSPARK_PYTHON, to a newer one."
    )

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp as GroupsCaughtUp
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook as KafkaOffsetsHook
    from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline as KafkaPipeline
    from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable as AuditedTable
    from airflow_kafka_offsets.operators.alerts import (
        KafkaLagAlertOperator as KafkaLagAlertOperator,
        KafkaRetentionWatchOperator as KafkaRetentionWatchOperator,
    )
    from airflow_kafka_offsets.operators.audit_table import KafkaAuditTableOperator as KafkaAuditTableOperator
    from airflow_kafka_offsets.operators.commits import (
        KafkaCommitOffsetsOperator as KafkaCommitOffsetsOperator,
        KafkaResetOffsetsOperator as KafkaResetOffsetsOperator,
    )
    from airflow_kafka_offsets.operators.prepare_load import (
        KafkaPrepareLoadOperator as KafkaPrepareLoadOperator,
        SparkCluster as SparkCluster,
    )
    from airflow_kafka_offsets.operators.resolve import (
        KafkaOffsetSnapshotOperator as KafkaOffsetSnapshotOperator,
        KafkaResolveIncrementOperator as KafkaResolveIncrementOperator,
        KafkaResolveWindowOperator as KafkaResolveWindowOperator,
        KafkaUnpublishedWindowsOperator as KafkaUnpublishedWindowsOperator,
    )
    from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator as KafkaSparkSubmitOperator
    from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator as KafkaVerifyWindowOperator
    from airflow_kafka_offsets.sensors.group_sensors import (
        KafkaGroupLagSensor as KafkaGroupLagSensor,
        KafkaOffsetsReachedSensor as KafkaOffsetsReachedSensor,
    )
    from airflow_kafka_offsets.sensors.pipeline_sensors import (
        KafkaNewDataSensor as KafkaNewDataSensor,
        KafkaWindowCompleteSensor as KafkaWindowCompleteSensor,
    )
    from airflow_kafka_offsets.spark.table_load import TableLoad as TableLoad
    from airflow_kafka_offsets.spark.values.formats import ValueFormat as ValueFormat
    from airflow_kafka_offsets.submission.application import LOAD_APPLICATION as LOAD_APPLICATION
    from airflow_kafka_offsets.task_groups import (
        kafka_increment_load as kafka_increment_load,
        kafka_window_load as kafka_window_load,
    )
    from airflow_kafka_offsets.triggers.watchers import (
        KafkaLagZeroTrigger as KafkaLagZeroTrigger,
        KafkaNewDataTrigger as KafkaNewDataTrigger,
        KafkaWindowCompleteTrigger as KafkaWindowCompleteTrigger,
    )

__getattr__, __all__ = offered("airflow_kafka_offsets")
