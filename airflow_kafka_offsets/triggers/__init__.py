"""Triggers: what the triggerer runs while a task is deferred."""
