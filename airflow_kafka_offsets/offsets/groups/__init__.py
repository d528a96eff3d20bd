"""Judging groups: lag, where it is to count, and where their commits are to go."""
