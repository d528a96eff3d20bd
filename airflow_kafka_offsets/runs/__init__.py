"""What a Dag run is about: its interval, its schedule, and missing runs."""
