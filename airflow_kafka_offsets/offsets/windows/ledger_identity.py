"""A ledger's identity: what ``pipeline.json`` says of it, and whatever carries its windows.

Whose windows a table or a folder holds is told by the id alone. The pipeline's name stands beside it for people:
another ledger's may be the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from airflow_kafka_offsets.errors import LedgerCorruptError

PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""What a pipeline may be called: it names a folder, and stands in SQL and in table properties."""
LEDGER_ID = re.compile(r"[0-9a-f]{32}")
"""A ledger's id: in hex, which no pattern for secrets matches that Spark has by default."""
PIPELINE = "pipeline.json"
"""File in the pipeline's folder that says it."""


@dataclass(frozen=True, slots=True)
class LedgerIdentity:
    """Which ledger.

    :param ledger_id: made once, with the ledger.
    :param pipeline: its pipeline's name, for people; None where it can't be told.
    """

    ledger_id: str
    pipeline: str | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self | None:
        """From a JSON object or a table's properties; None when they name no id."""
        found, pipeline = fields.get("ledger_id"), fields.get("pipeline")
        if not isinstance(found, str) or not LEDGER_ID.fullmatch(found):
            return None
        named = isinstance(pipeline, str) and PIPELINE_NAME.fullmatch(pipeline)
        return cls(found, pipeline if named else None)

    @classmethod
    def of_pipeline(cls, fields: Mapping[str, Any] | None, uri: str) -> Self:
        """From ``pipeline.json``.

        :param fields: what it holds; None when there is none.
        :param uri: where it is.
        :raises LedgerCorruptError: when it is missing, or doesn't say it.
        """
        found = cls.of(fields or {})
        if found is None:
            raise LedgerCorruptError(
                f"{uri} is missing or names no ledger_id. It is what tells this ledger from others: restore the file "
                "as it was, from a backup or an earlier version of the object."
            )
        return found

    def to_bytes(self) -> bytes:
        """JSON for a file that says whose a place is."""
        return json.dumps({"ledger_id": self.ledger_id, "pipeline": self.pipeline}).encode()

    def __str__(self) -> str:
        return f"ledger {self.ledger_id}" + (f" (pipeline {self.pipeline})" if self.pipeline else "")


def json_object(content: bytes | None) -> dict[str, Any]:
    """A file's JSON object; empty when it is something else, or half written."""
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
