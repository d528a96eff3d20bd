"""Commands: ``airflow kafka-offsets …``."""
