"""Judging groups: their lag, which partitions it counts on, and where their commits should go."""
