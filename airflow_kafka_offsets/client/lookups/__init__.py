"""Lookups: combine several requests into one answer."""
