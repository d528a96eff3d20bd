"""Typed values: what a record's bytes say of their schema, where schemas come from, and how bytes become columns."""
