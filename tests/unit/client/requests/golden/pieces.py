"""The partitions and the instant that the golden frames speak of."""

from __future__ import annotations

from airflow_kafka_offsets.offsets.partitions import TopicPartition

FLIGHTS_0, FLIGHTS_1, FLIGHTS_2 = (TopicPartition("flights", each) for each in range(3))
WEATHER_1 = TopicPartition("weather", 1)
NOON_MS = 1_795_240_800_000
