"""A table that something else has written, read and compared with a window of Kafka."""
