"""Conditions: what a task can wait for, each a plain check that anybody may call with a client.

Below Airflow: a sensor checks a condition on a worker, the triggers check many at once on the triggerer, and
``condition.check(client)`` is all that a function of one's own needs.
"""
