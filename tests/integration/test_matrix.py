"""The oldest Airflow with the oldest provider submits to the oldest Spark, on the oldest Python that drivers run on.

The other combinations are ``make matrix``.
"""

from __future__ import annotations

import pytest

from dev.matrix import COMBINATIONS, build, find_python, run

OLDEST = COMBINATIONS[0]


@pytest.mark.timeout(1800)
def test_the_oldest_of_all_runs_the_example_dags_from_the_wheel() -> None:
    missing = [each for each in (OLDEST.airflow.python, OLDEST.spark.python) if find_python(each) is None]
    if missing:
        pytest.skip(f"this machine has no Python {' and '.join(missing)}")
    assert run(OLDEST, build())["lag_s"] < 60
