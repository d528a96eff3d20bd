"""Operators: snapshot, resolve, load, verify, commit."""
