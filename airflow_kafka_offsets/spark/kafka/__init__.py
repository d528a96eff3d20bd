"""What the driver asks of Kafka, during the read and beside it."""
