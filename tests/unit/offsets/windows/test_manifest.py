"""The manifest as a file: what its writers may say by its names."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.unit.spark.manifests import manifest_of


class TestNames:
    @pytest.mark.parametrize(
        ("field", "name"),
        [
            ("pipeline", "../other"),
            ("pipeline", "p'); DROP TABLE lake.flights; --"),
            ("ledger_id", "0' OR '1'='1"),
            ("ledger_id", ""),
            ("window", "20261121T050000000Z/../.."),
            ("window", "x' = 'x"),
        ],
    )
    def test_one_that_is_more_than_a_name_is_refused(self, field: str, name: str) -> None:
        """Names become folders, SQL and table properties."""
        fields = json.loads(manifest_of([("t", 0, 0, 5)]).to_bytes())
        assert Manifest.from_bytes(json.dumps(fields).encode()).pipeline == "flights"
        with pytest.raises(LedgerCorruptError, match=field):
            Manifest.from_bytes(json.dumps(fields | {field: name}).encode())


@pytest.mark.parametrize("content", [b"", b"5", b"null", b'"x"', b"[]", b"{}", b'{"format": 3}'])
def test_what_is_something_else_is_refused(content: bytes) -> None:
    with pytest.raises(LedgerCorruptError, match="not a manifest"):
        Manifest.from_bytes(content)
