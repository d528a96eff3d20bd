"""Operators: snapshot, resolve, load, verify, commit, reset, watch retention."""
