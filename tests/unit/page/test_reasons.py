"""Why loads failed, and what helps: said of errors that there are."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.page import reasons

KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KafkaOffsetsError)
]


def test_each_is_of_an_error_that_there_is() -> None:
    names = {kind.__name__ for kind in KINDS}
    assert reasons._HELPS.keys() - names == set()


@pytest.mark.parametrize("kind", KINDS)
def test_each_error_says_what_it_is_in_one_sentence(kind: type[errors.KafkaOffsetsError]) -> None:
    why = reasons.told(FailureNote(kind.__name__, ""))["why"]
    assert 20 < len(why) < 200
    assert "`" not in why


@pytest.mark.parametrize("kind", KINDS)
def test_clearing_alone_is_advised_only_where_it_can_help(kind: type[errors.KafkaOffsetsError]) -> None:
    note = FailureNote(kind.__name__, "")
    advised = reasons.told(note)["helps"].startswith(reasons._CLEAR)
    assert advised is not note.is_permanent


def test_an_error_of_a_users_job_may_pass() -> None:
    assert reasons.told(FailureNote("AnalysisException", ""))["helps"] == reasons._CLEAR
