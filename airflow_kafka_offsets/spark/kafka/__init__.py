"""What the driver asks of Kafka, beside and beneath the read."""
