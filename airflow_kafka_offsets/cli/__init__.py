"""Commands: ``kafka-offsets …``."""
