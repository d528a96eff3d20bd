"""Why loads failed, and what helps: said of errors that there are."""

from __future__ import annotations

import re

import pytest

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.page import reasons
from dev import ROOT

KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KafkaOffsetsError)
]


def test_each_is_of_an_error_that_there_is() -> None:
    names = {kind.__name__ for kind in KINDS}
    assert (reasons._WHY.keys() | reasons._HELPS.keys()) - names == set()


def test_what_goes_wrong_in_spark_has_words_of_its_own() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    section = page.partition("## Spark")[2].partition("\n## ")[0]
    named = {*re.findall(r"`(\w+Error)`", section), "RegistryError", "RegistryUnreachableError"}
    of_a_job = {"SparkFailedError", "LedgerError", "WindowsFailedError"}
    assert named - of_a_job - reasons._WHY.keys() == set()


@pytest.mark.parametrize("kind", KINDS)
def test_clearing_alone_is_advised_only_where_it_can_help(kind: type[errors.KafkaOffsetsError]) -> None:
    note = FailureNote(kind.__name__, "")
    advised = reasons.told(note)["helps"].startswith(reasons._CLEAR)
    assert advised is not note.is_permanent


def test_an_error_of_a_users_job_may_pass() -> None:
    assert reasons.told(FailureNote("AnalysisException", ""))["helps"] == reasons._CLEAR
