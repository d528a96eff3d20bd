"""What was read and written, counted by Spark."""
