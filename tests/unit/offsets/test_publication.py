"""What ``committed.json`` says, and what it said before."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.publication import Publication

BY_OFFSETS = Publication("try-1", "file:///table/window=w/attempt=try-1", "ab12", 205)
STRICT = Publication("try-1", "file:///table/window=w/attempt=try-1", "ab12", 205, outside=7)


@pytest.mark.parametrize("publication", [BY_OFFSETS, STRICT])
def test_it_is_read_as_it_was_written(publication: Publication) -> None:
    assert Publication.from_bytes(publication.to_bytes()) == publication


def test_a_file_from_before_strict_time_says_that_offsets_decide() -> None:
    fields = {"attempt": "try-1", "output": BY_OFFSETS.output, "manifest_sha256": "ab12", "rows": 205, "format": 1}

    assert Publication.from_bytes(json.dumps(fields).encode()) == BY_OFFSETS


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"format": 1, "attempt": "try-1"}', id="a field is missing"),
        pytest.param(STRICT.to_bytes().replace(b'"format":1', b'"format":9'), id="a format of the future"),
        pytest.param(STRICT.to_bytes()[:-5], id="cut short"),
        pytest.param(b"[]", id="no object"),
    ],
)
def test_something_else_is_refused(content: bytes) -> None:
    with pytest.raises(LedgerCorruptError, match=r"not a committed\.json"):
        Publication.from_bytes(content)
