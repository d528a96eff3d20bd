"""What starts Spark, and what becomes of it."""
