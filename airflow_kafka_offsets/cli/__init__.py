"""The commands of ``kafka-offsets``."""
