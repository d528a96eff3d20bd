"""Sensors: tasks that wait until something is true in Kafka."""
