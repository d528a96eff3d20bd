"""Kafka's own Java clients on the driver, which Spark's connector brings: for what the driver asks Kafka besides the
read.

They get the reader's own options, credentials included, so they reach the same brokers as the executors. Kafka's
clients hide credentials when they log their settings. Under Spark Connect there is no JVM, and so no client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import AuthenticationError, ConfigurationError, UncheckedSourceError
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, java_classes, java_throwables, words

_PREFIX = "kafka."
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_CONSUMER = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    # An assigned consumer that commits nothing needs no group, and so no ACL for one.
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "none",
}
_GROUP = ("group.id", "group.instance.id", "group.protocol")
_ERRORS = "org.apache.kafka.common.errors."
_REFUSED = tuple(f"{_ERRORS}{kind}AuthenticationException" for kind in ("", "Sasl", "Ssl"))


@dataclass(frozen=True, slots=True)
class KafkaClients:
    """Clients of the cluster that a reader reads; each is closed after its block. Inside the block, a failed request
    raises UncheckedSourceError, and brokers that refuse the credentials raise AuthenticationError. ``options`` are the
    reader's: those that begin with ``kafka.`` are the clients' settings."""

    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)

    def admin(self) -> AbstractContextManager[Any]:
        """An ``org.apache.kafka.clients.admin.Admin``."""
        return _closed_afterwards(self._admin)

    def consumer(self) -> AbstractContextManager[Any]:
        """An ``org.apache.kafka.clients.consumer.KafkaConsumer`` without a group."""
        return _closed_afterwards(self._consumer)

    def _admin(self) -> Any:
        # The admin client would log a warning for each consumer-only setting, every time.
        consumers = self._class("org.apache.kafka.clients.consumer.ConsumerConfig").configNames()
        admins = self._class("org.apache.kafka.clients.admin.AdminClientConfig").configNames()
        settings = {
            name: value
            for name, value in self._settings().items()
            if admins.contains(name) or not consumers.contains(name)
        }
        return self._class("org.apache.kafka.clients.admin.Admin").create(settings)

    def _consumer(self) -> Any:
        settings = {name: value for name, value in self._settings().items() if name not in _GROUP} | _CONSUMER
        return self._class("org.apache.kafka.clients.consumer.KafkaConsumer")(settings)

    def _settings(self) -> dict[str, str]:
        return {name[len(_PREFIX) :]: value for name, value in self.options.items() if name.lower().startswith(_PREFIX)}

    def _class(self, name: str) -> Any:
        """A Java class, to call or for its static methods; refused if the driver doesn't have it."""
        found: Any = self.spark._jvm
        for part in name.split("."):
            found = getattr(found, part)
        if isinstance(found, JavaPackage):
            raise ConfigurationError(
                f"Spark's driver has no class {name}, which it needs to check that it reads the topics that were "
                "resolved. Spark's Kafka connector brings it (spark.jars.packages); shaded jars don't."
            )
        return found


def is_kafka_error(error: Exception, name: str) -> bool:
    """Whether Java threw this Kafka error (such as ``UnknownTopicOrPartitionException``), or it was the cause."""
    return _ERRORS + name in java_classes(error)


@contextmanager
def _closed_afterwards(make: Callable[[], Any]) -> Iterator[Any]:
    try:
        client = make()
        try:
            yield client
        finally:
            client.close()
    except JAVA_ERRORS as error:
        causes = list(java_throwables(error))
        # The innermost cause gives the reason: the others only say that something failed.
        said = str(causes[-1].toString()).splitlines()[0].rstrip(".") if causes else words(error)
        text = f"The driver can't ask Kafka: {said}"
        if not set(_REFUSED).isdisjoint(java_classes(error)):
            raise AuthenticationError(f"{text}. Check the credentials among the reader's options.") from error
        raise UncheckedSourceError(
            f"{text}. Without its answer nothing proves that the window's own records were read: nothing is "
            "published. A retry asks again."
        ) from error
