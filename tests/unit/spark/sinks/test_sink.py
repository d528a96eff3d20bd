"""Whose rows an attempt may replace: those of an earlier attempt that its ledger knows, and nobody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.spark.sinks.sink import Attempt

OURS = Attempt("w", 17, "0a1b2c3d", 9, "flights", "0f" * 16, "ab" * 32)


@pytest.mark.parametrize("held", [None, "16-ffffffff", "9-0a1b2c3d"])
def test_rows_of_earlier_attempts_are_replaced(held: str | None) -> None:
    """Numbers are compared as numbers."""
    OURS.require_later(held, is_noted=True)


@pytest.mark.parametrize(
    ("held", "kind", "words"),
    [
        pytest.param("18-ffffffff", CommitConflictError, "which began after this one", id="a later attempt"),
        pytest.param("17-ffffffff", CommitConflictError, "it alone can prove", id="another driver of this one"),
        pytest.param("17-0a1b2c3d", ConfigurationError, "two outputs go to the same place", id="another output"),
    ],
)
def test_others_have_to_stay(held: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        OURS.require_later(held)


@pytest.mark.parametrize("held", ["16-ffffffff", "17-ffffffff", "18-ffffffff"])
def test_those_of_a_driver_that_the_ledger_does_not_know_have_to_stay_too(held: str) -> None:
    stranger = replace(OURS, knows=lambda number, run: False)
    with pytest.raises(LedgerConflictError, match="there is a copy of the ledger"):
        stranger.require_later(held, is_noted=True)


def test_a_key_tells_ledgers_windows_and_outputs_apart() -> None:
    changed = [replace(OURS, ledger_id="0e" * 16), replace(OURS, window="v"), replace(OURS, output="late")]
    assert len({each.key for each in [OURS, *changed]}) == 4
    assert replace(OURS, number=18, run="ffffffff").key == OURS.key
