"""What offsets mean. Pure: no I/O, no Airflow, no kafka, no pyspark; the standard library only."""
