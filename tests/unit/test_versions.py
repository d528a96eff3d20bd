"""The README says what the matrix found."""

from __future__ import annotations

import json

from dev.matrix import COMBINATIONS, README, RESULTS, with_table


class TestReadme:
    def test_has_the_table_of_what_has_passed(self) -> None:
        readme = README.read_text(encoding="utf-8")
        results = json.loads(RESULTS.read_text(encoding="utf-8"))["combinations"]
        assert readme == with_table(readme, results)

    def test_has_every_combination(self) -> None:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))["combinations"]
        found = {(each["name"], each["python"], each["driver_python"], each["kafka"]) for each in results}
        wanted = {(each.name, each.airflow.python, each.spark.python, each.kafka) for each in COMBINATIONS}

        assert found == wanted

    def test_the_matrix_has_oldest_and_newest_of_each_together(self) -> None:
        names = {each.name for each in COMBINATIONS}
        assert {"3.1.8-3.5.1", "3.1.8-4.2.0", "3.3.2-3.5.1", "3.3.2-4.2.0"} <= names
        assert {each.spark.version for each in COMBINATIONS} == {"3.5.1", "4.0.0", "4.1.1", "4.2.0"}
        assert {each.airflow.python for each in COMBINATIONS} == {"3.11", "3.12", "3.13"}
        assert "3.10" in {each.spark.python for each in COMBINATIONS}
