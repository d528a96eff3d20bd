"""What a Dag run is about: its interval, its schedule, and the runs that are missing."""
