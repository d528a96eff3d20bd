"""One module per Kafka API, named after it."""
