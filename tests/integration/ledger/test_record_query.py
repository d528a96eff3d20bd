"""Record queries: what contradicts itself is refused, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.record_query import RecordQuery
from tests.unit.offsets.builders import T0

KEY = b"customer-4711"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"partition": 1, "key": b"", "offset": 1}, "Leave the partition out"),
        ({"partition": 1, "offset": 1, "at_ms": T0}, "Leave the instant out"),
        ({"key": KEY, "offset": 1, "at_ms": T0}, "Leave the instant out"),
        ({"offset": 1}, "give the partition, or the record's key"),
        ({"partition": 1}, r"Which record of t-1\? Give an offset, an instant \(at\), or a key"),
        ({}, r"Which record\? Give"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RecordQuery("t", **asked)
