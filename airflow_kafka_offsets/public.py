"""The public list: every name that users import, and from where. Whatever isn't in it may change in any release.

Each place offers its names without importing their modules: those of Airflow's classes take seconds, and Airflow loads
the package while it is itself being loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

PUBLIC: dict[str, dict[str, str]] = {
    "airflow_kafka_offsets": {
        "KafkaPipeline": "kafka_pipeline",
        # task groups
        "kafka_increment_load": "task_groups",
        "kafka_window_load": "task_groups",
        # operators
        "AuditedTable": "offsets.audits.audited_table",
        "KafkaAuditTableOperator": "operators.audit_table",
        "KafkaCommitOffsetsOperator": "operators.commits",
        "KafkaLagAlertOperator": "operators.alerts",
        "KafkaOffsetSnapshotOperator": "operators.resolve",
        "KafkaPrepareLoadOperator": "operators.prepare_load",
        "KafkaResetOffsetsOperator": "operators.commits",
        "KafkaResolveIncrementOperator": "operators.resolve",
        "KafkaResolveWindowOperator": "operators.resolve",
        "KafkaRetentionWatchOperator": "operators.alerts",
        "KafkaSparkSubmitOperator": "operators.spark_submit",
        "KafkaUnpublishedWindowsOperator": "operators.resolve",
        "KafkaVerifyWindowOperator": "operators.verify_window",
        "LOAD_APPLICATION": "submission.application",
        "SparkCluster": "operators.prepare_load",
        "TableLoad": "spark.table_load",
        "ValueFormat": "spark.values.formats",
        # sensors, and what one of your own may wait for
        "GroupsCaughtUp": "conditions.groups_caught_up",
        "KafkaGroupLagSensor": "sensors.group_sensors",
        "KafkaNewDataSensor": "sensors.pipeline_sensors",
        "KafkaOffsetsReachedSensor": "sensors.group_sensors",
        "KafkaWindowCompleteSensor": "sensors.pipeline_sensors",
        # triggers of asset watchers
        "KafkaLagZeroTrigger": "triggers.watchers",
        "KafkaNewDataTrigger": "triggers.watchers",
        "KafkaWindowCompleteTrigger": "triggers.watchers",
        # hook
        "KafkaOffsetsHook": "hooks.kafka_offsets",
    },
    "airflow_kafka_offsets.client": {
        "ClientSettings": "client.connection.settings",
        "OffsetsClient": "client.offsets_client",
        # what is asked for
        "IsolationLevel": "offsets.specs",
        "LogEpoch": "offsets.answers.logs",
        "LogRange": "offsets.partitions",
        "OffsetSpec": "offsets.specs",
        "ReadPosition": "offsets.answers.records",
        "TopicPartition": "offsets.partitions",
        # answers
        "CommittedOffset": "offsets.answers.groups",
        "CommittedOffsets": "offsets.answers.groups",
        "EpochEnd": "offsets.answers.logs",
        "FirstRecord": "offsets.answers.records",
        "FirstRecords": "offsets.answers.records",
        "GroupDescription": "offsets.answers.groups",
        "GroupDescriptions": "offsets.answers.groups",
        "GroupLag": "offsets.lag",
        "GroupLags": "offsets.lag",
        "GroupOffsets": "offsets.answers.groups",
        "LagStatus": "offsets.lag",
        "ListedOffset": "offsets.answers.listed_offsets",
        "ListedOffsets": "offsets.answers.listed_offsets",
        "ListOutcome": "offsets.answers.listed_offsets",
        "LogContents": "offsets.answers.records",
        "LogExtent": "offsets.answers.logs",
        "LogExtents": "offsets.answers.logs",
        "PartitionLag": "offsets.lag",
        "PartitionProducers": "offsets.answers.logs",
        "SegmentOffsets": "offsets.answers.logs",
        "ShareOffset": "offsets.answers.groups",
        "TopicFacts": "offsets.answers.logs",
        # the codec
        "LIST_OFFSETS": "client.codec",
        "OFFSET_FETCH": "client.codec",
        "Header": "client.codec",
    },
    "airflow_kafka_offsets.spark": {
        "Attempt": "spark.sinks.sink",
        "DeltaSink": "spark.sinks.delta_sink",
        "Derived": "spark.window.derived",
        "FileSink": "spark.sinks.file_sink",
        "IcebergSink": "spark.sinks.iceberg_sink",
        "KafkaOffsetsError": "errors",
        "PinnedWindow": "spark.pinned",
        "RunResult": "offsets.proof.run_result",
        "Sink": "spark.sinks.sink",
        "SplitPlan": "offsets.proof.split_plan",
        "ValueFormat": "spark.values.formats",
        "load_windows": "spark.windows",
        "pinned_window": "spark.pinned",
        "pinned_windows": "spark.windows",
        "read_published": "spark.published",
    },
}
"""By place, each name and the module that has it, below ``airflow_kafka_offsets``. Beside these, all of
``airflow_kafka_offsets.errors`` is public."""


def offered(place: str) -> tuple[Callable[[str], Any], list[str]]:
    """A place's ``__getattr__`` and ``__all__``."""
    modules = PUBLIC[place]

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {place!r} has no attribute {name!r}")
        return getattr(import_module(f"airflow_kafka_offsets.{modules[name]}"), name)

    return attribute, sorted(modules)
