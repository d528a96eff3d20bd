"""One module for each Kafka API, by its name."""
