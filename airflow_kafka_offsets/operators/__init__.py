"""Operators: snapshot, resolve, load, verify, commit, watch retention."""
