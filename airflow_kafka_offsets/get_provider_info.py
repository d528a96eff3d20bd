"""Provider metadata as pure data. Airflow reads it while loading itself, so this module imports nothing."""

from __future__ import annotations

from typing import Any

_NAME = "Kafka Offsets"


def get_provider_info() -> dict[str, Any]:
    """What Airflow's provider manager discovers: connection type, classes and settings."""
    return {
        "package-name": "airflow-kafka-offsets",
        "name": _NAME,
        "description": "Exact Kafka offset windows: list offsets, wait on lag, run Spark on pinned ranges with proof.",
        "integrations": [{"integration-name": _NAME, "tags": ["service"]}],
        "hooks": [_modules("hooks.kafka_offsets")],
        "sensors": [_modules("sensors.group_sensors", "sensors.pipeline_sensors")],
        "triggers": [_modules("triggers.wait", "triggers.watchers", "triggers.ledger_looks")],
        "operators": [
            _modules(
                "operators.resolve",
                "operators.spark_submit",
                "operators.prepare_load",
                "operators.verify_window",
                "operators.audit_table",
                "operators.commits",
                "operators.alerts",
            )
        ],
        "extra-links": [
            "airflow_kafka_offsets.lineage.links.SparkUILink",
            "airflow_kafka_offsets.lineage.links.WindowLink",
        ],
        "connection-types": [_CONNECTION_TYPE],
        "config": _CONFIG,
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _NAME, "python-modules": [f"airflow_kafka_offsets.{name}" for name in names]}


def _choice(label: str, description: str, default: str, *choices: str) -> dict[str, Any]:
    """An optional field: when it is left out, the form shows the default."""
    shown = {"None": f"{default} (default)"}  # without it the form shows "null"
    schema = {"type": ["string", "null"], "enum": [None, default, *choices], "values_display": shown}
    return {"label": label, "description": description, "schema": schema}


def _text(label: str, description: str, **schema: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]} | schema}


_MECHANISMS = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")

# A type of its own: registering "kafka" would replace the Kafka provider's hook and form. Connections of type "kafka"
# work too.
_CONNECTION_TYPE = {
    "connection-type": "kafka_offsets",
    "hook-class-name": "airflow_kafka_offsets.hooks.kafka_offsets.KafkaOffsetsHook",
    "hook-name": _NAME,
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port"],
        "relabeling": {"host": "Bootstrap servers", "login": "SASL user name", "password": "SASL password"},
        "placeholders": {"host": "broker-1:9092,broker-2:9092"},
    },
    "conn-fields": {
        "security.protocol": _choice(
            "Security protocol", "How brokers are reached.", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
        ),
        "sasl.mechanism": _choice("SASL mechanism", "For the SASL_ protocols.", *_MECHANISMS),
        "ssl.ca.location": _text("CA certificates", "Path of a PEM file; the system's own by default."),
        "ssl.certificate.location": _text("Client certificate", "Path of a PEM file, for mutual TLS."),
        "ssl.key.location": _text("Client key", "Path of a PEM file, for mutual TLS."),
        "ssl.key.password": _text("Client key password", "Only for an encrypted key.", format="password"),
    },
}

_CONFIG = {
    "kafka_offsets": {
        "description": "Settings of the Kafka Offsets provider.",
        "options": {
            "ledger_root": {
                "description": (
                    "Folder of all ledgers, on any store that Airflow's object storage reaches and that can create "
                    "files exclusively (local disk, S3, GCS, Azure). Operators and commands can name another one."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "s3://aws_default@my-bucket/kafka-ledger",
                "default": "",
            },
            "client_timeout_s": {
                "description": "Seconds that one call to Kafka may take, with all its retries.",
                "version_added": "0.1.0",
                "type": "integer",
                "example": None,
                "default": "30",
            },
            "jars_folder": {
                "description": (
                    "Folder on each worker for the jars of Maven packages (the Kafka connector, Delta Lake, Iceberg), "
                    "which loads resolve once and then give to spark-submit as files, and for archives of Spark's "
                    "classes. Only the worker's user may be able to write to it. Empty: airflow-kafka-offsets/jars in "
                    "the user's cache (XDG_CACHE_HOME, ~/.cache)."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "/var/cache/airflow/jars",
                "default": "",
            },
            "page_kafka_conn_id": {
                "description": (
                    'Connection with which the api-server asks Kafka when somebody presses "Ask Kafka how far they '
                    'are" on the page "Kafka windows". Empty: the page has no such button and never asks Kafka.'
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "kafka_describe_only",
                "default": "",
            },
        },
    }
}
