"""What Airflow's Spark provider lacks before 6.3.1, and what it doesn't keep of the output of ``spark-submit``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

_FOLLOWING = ("get_job_status", "poll_until_complete", "is_job_active", "is_job_succeeded", "_backend")
"""What continuing with a driver needs; available since 6.3.1."""
_LINES = 2_000
"""How many of the last lines are kept: Java's part of a traceback may be long."""
_PROGRESS = "[Stage "
"""How the lines of Spark's progress bar begin."""


def can_follow_drivers() -> bool:
    """Whether the provider can be asked about a driver that it has submitted."""
    return all(hasattr(SparkSubmitOperator, name) for name in _FOLLOWING)


def kept_output(hook: SparkSubmitHook) -> Callable[[], list[str]]:
    """Returns a function that gives the last lines printed by ``spark-submit`` from now on, with passwords masked as
    the provider does, and without Spark's progress. The provider itself keeps 20 since 6.2, and 500 after an
    exception's first line."""
    kept: deque[str] = deque(maxlen=_LINES)
    process = hook._process_spark_submit_log

    def noted(output: Iterable[Any]) -> Iterator[Any]:
        for line in output:
            text = line.strip()
            if text:  # a progress bar is followed by an empty line
                if not text.startswith(_PROGRESS):
                    kept.append(text)
                yield line

    hook._process_spark_submit_log = lambda output: process(noted(output))  # type: ignore[assignment, method-assign]
    return lambda: [hook._mask_cmd([line]) for line in kept]
