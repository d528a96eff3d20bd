"""What Kafka said."""
