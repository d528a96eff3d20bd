"""Positions of a Kafka consumer on the driver, validated: Kafka's public way to ask where leader epochs end (KIP-320).

A window may have ten thousand partitions, and a call from Python into Java takes a tenth of a millisecond or more. So
Java itself goes through them: method handles stand for the lambdas that Python can't give it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from airflow_kafka_offsets.offsets.source import Bound
from airflow_kafka_offsets.spark.kafka_clients import KafkaClients, java_class

_JSON = "org.apache.spark.sql.kafka010.JsonUtils"
_SCALA = "scala.jdk.javaapi.CollectionConverters"


class ConsumerPositions:
    """Sets and validates positions.

    :param clients: whose consumer it is.
    :param consumer: an ``org.apache.kafka.clients.consumer.KafkaConsumer``.
    """

    def __init__(self, clients: KafkaClients, consumer: Any) -> None:
        self._spark, self._consumer = clients.spark, consumer
        java: Any = clients.spark._jvm
        self._java = java
        self._invoke: Any = self._java.java.lang.invoke
        self._lookup = self._invoke.MethodHandles.publicLookup()

    def validate(self, bounds: Iterable[Bound], timeout_s: int) -> None:
        """Take positions, one of a partition, and wait until each is validated.

        :param timeout_s: how long to wait for one, while all are asked for.
        :raises Py4JJavaError: with ``LogTruncationException``, where the epoch of one ends below it.
        """
        by_epoch: dict[int, list[Bound]] = defaultdict(list)
        for each in bounds:
            by_epoch[each.leader_epoch].append(each)
        everywhere = self._offsets(each for several in by_epoch.values() for each in several)
        partitions = self._java.java.util.ArrayList(everywhere.keySet())
        self._consumer.assign(partitions)
        # Brings all leaders and their epochs, without which a consumer takes a position for valid at once.
        self._consumer.endOffsets(partitions)
        for leader_epoch, several in by_epoch.items():
            offsets = everywhere if len(by_epoch) == 1 else self._offsets(several)
            offsets.forEach(self._seek(leader_epoch, partitions))
        partitions.forEach(self._position(timeout_s, partitions))

    def _offsets(self, bounds: Iterable[Bound]) -> Any:
        """A Java map of partitions and offsets."""
        by_topic: dict[str, dict[int, int]] = defaultdict(dict)
        for each in bounds:
            by_topic[each.topic][each.partition] = each.offset
        scala = java_class(self._spark, _JSON).partitionOffsets(json.dumps(by_topic))
        # Python finds no methods that a class has of its interfaces alone, as Scala's have forEach.
        return self._java.java.util.HashMap(java_class(self._spark, _SCALA).asJava(scala))

    def _seek(self, leader_epoch: int, partitions: Any) -> Any:
        """``(partition, offset) -> consumer.seek(partition, new OffsetAndMetadata(offset, leader_epoch, ""))``"""
        util, lang = self._java.java.util, self._java.java.lang
        epoch = util.Optional.of(leader_epoch)
        position = self._java.org.apache.kafka.clients.consumer.OffsetAndMetadata(0, epoch, "").getClass()
        kinds = [lang.Long.TYPE, epoch.getClass(), lang.Class.forName("java.lang.String")]
        make = self._lookup.findConstructor(position, self._signature(lang.Void.TYPE, kinds))
        make = self._invoke.MethodHandles.insertArguments(make, 1, self._array(lang.Object, epoch, ""))
        seek = self._method("seek", lang.Void.TYPE, [partitions.get(0).getClass(), position])
        filters = self._array(self._invoke.MethodHandle, make)
        return self._function("BiConsumer", self._invoke.MethodHandles.filterArguments(seek, 1, filters))

    def _position(self, timeout_s: int, partitions: Any) -> Any:
        """``partition -> consumer.position(partition, timeout)``"""
        lang, timeout = self._java.java.lang, self._java.java.time.Duration.ofSeconds(timeout_s)
        method = self._method("position", lang.Long.TYPE, [partitions.get(0).getClass(), timeout.getClass()])
        given = self._array(lang.Object, timeout)
        return self._function("Consumer", self._invoke.MethodHandles.insertArguments(method, 1, given))

    def _method(self, name: str, returns: Any, kinds: list[Any]) -> Any:
        found = self._lookup.findVirtual(self._consumer.getClass(), name, self._signature(returns, kinds))
        return found.bindTo(self._consumer)

    def _signature(self, returns: Any, kinds: list[Any]) -> Any:
        return self._invoke.MethodType.methodType(returns, kinds)

    def _function(self, interface: str, handle: Any) -> Any:
        kind = self._java.java.lang.Class.forName(f"java.util.function.{interface}")
        return self._invoke.MethodHandleProxies.asInterfaceInstance(kind, handle)

    def _array(self, kind: Any, *elements: Any) -> Any:
        gateway: Any = self._spark.sparkContext._gateway
        array = gateway.new_array(kind, len(elements))
        for number, each in enumerate(elements):
            array[number] = each
        return array
