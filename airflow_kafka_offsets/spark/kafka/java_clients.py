"""Kafka's own Java clients on the driver, which Spark's connector brings: what the driver asks of Kafka beside reading.

They get the reader's own options, credentials included, so that they reach what the executors reach. Kafka's clients
hide credentials where they log their settings. Under Spark Connect there is no JVM at hand, and no client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]  # comes with pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import AuthenticationError, ConfigurationError, UncheckedSourceError
from airflow_kafka_offsets.spark.files.hadoop import JAVA_ERRORS, words

_PREFIX = "kafka."
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_CONSUMER = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    # An assigned consumer that commits nothing needs no group, and so no ACL on one.
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "none",
}
_GROUP = ("group.id", "group.instance.id", "group.protocol")
_TOKENS = "spark.kafka.clusters."
"""How Spark's confs begin by which it gets delegation tokens for Kafka."""
_ERRORS = "org.apache.kafka.common.errors."
_REFUSED = tuple(f"{_ERRORS}{each}AuthenticationException" for each in ("", "Sasl", "Ssl"))


@dataclass(frozen=True, slots=True)
class KafkaClients:
    """Clients of the cluster that a reader reads.

    :param spark: a session with a driver of its own.
    :param options: the reader's options; those that begin with ``kafka.`` are the clients' settings.
    """

    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """An ``org.apache.kafka.clients.admin.Admin``, closed afterwards.

        :raises UncheckedSourceError: when something in the block can't be asked.
        :raises AuthenticationError: when the brokers refuse the credentials.
        """
        with _errors_of_kafka():
            # What only consumers know would be a warning, each time.
            consumers = self._class("org.apache.kafka.clients.consumer.ConsumerConfig").configNames()
            admins = self._class("org.apache.kafka.clients.admin.AdminClientConfig").configNames()
            settings = {
                name: value
                for name, value in self._settings().items()
                if admins.contains(name) or not consumers.contains(name)
            }
            client = self._class("org.apache.kafka.clients.admin.Admin").create(self._authenticated(settings))
            try:
                yield client
            finally:
                client.close()

    @contextmanager
    def consumer(self) -> Iterator[Any]:
        """An ``org.apache.kafka.clients.consumer.KafkaConsumer`` without a group, closed afterwards.

        :raises UncheckedSourceError: when something in the block can't be asked.
        :raises AuthenticationError: when the brokers refuse the credentials.
        """
        with _errors_of_kafka():
            settings = {name: value for name, value in self._settings().items() if name not in _GROUP} | _CONSUMER
            make = self._class("org.apache.kafka.clients.consumer.KafkaConsumer")
            client = make(self._authenticated(settings))
            try:
                yield client
            finally:
                client.close()

    def _settings(self) -> dict[str, str]:
        return {name[len(_PREFIX) :]: value for name, value in self.options.items() if name.lower().startswith(_PREFIX)}

    def _class(self, name: str) -> Any:
        return java_class(self.spark, name)

    def _authenticated(self, settings: dict[str, str]) -> Any:
        """With what Spark adds for its own clients: delegation tokens, where its confs ask for them."""
        if not any(name.startswith(_TOKENS) for name in self.spark.conf.getAll):
            return settings
        scala = self._class("org.apache.spark.api.python.PythonUtils").toScalaMap(settings)
        updater = self._class("org.apache.spark.kafka010.KafkaConfigUpdater")
        return updater("driver", scala).setAuthenticationConfigIfNeeded().build()


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of Java's, to be called or for its static methods.

    :raises ConfigurationError: when the driver doesn't have it.
    """
    found: Any = spark._jvm
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, JavaPackage):
        raise ConfigurationError(
            f"Spark's driver has no {name}, by which it makes sure that it reads the topics that were resolved. "
            "Spark's Kafka connector brings it (spark.jars.packages); jars that are shaded don't."
        )
    return found


def java_classes(error: Exception) -> list[str]:
    """The class of what Java threw, and those of its causes; empty where Python threw it."""
    found = []
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    while cause is not None:
        found.append(str(cause.getClass().getName()))
        cause = cause.getCause()
    return found


def is_kafka_error(error: Exception, name: str) -> bool:
    """Whether Java threw, or was caused to throw, that error of Kafka's: ``UnknownTopicOrPartitionException``."""
    return _ERRORS + name in java_classes(error)


def _root(error: Exception) -> str:
    """The first line of the innermost cause: the others say that something failed."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return words(error) if cause is None else str(cause.toString()).splitlines()[0].rstrip(".")


@contextmanager
def _errors_of_kafka() -> Iterator[None]:
    try:
        yield
    except JAVA_ERRORS as error:
        text = f"Kafka can't be asked by the driver: {_root(error)}"
        if not set(_REFUSED).isdisjoint(java_classes(error)):
            raise AuthenticationError(f"{text}. Check the credentials among the reader's options.") from error
        raise UncheckedSourceError(
            f"{text}. Without its answer nothing proves that the window's own records were read: nothing is "
            "published. A retry asks again."
        ) from error
