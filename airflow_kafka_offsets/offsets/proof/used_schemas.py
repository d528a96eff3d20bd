"""The schemas that decoded a window's keys or values, as its result names them: loading it again reads the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self


@dataclass(frozen=True, slots=True)
class UsedSchemas:
    """The schemas of one column.

    :param column: ``key`` or ``value``.
    :param kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    :param subjects: the registry's subjects.
    :param reader: id of the schema whose type the column has.
    :param hashes: by id, the sha256 of each schema that records could be written with.
    """

    column: str
    kind: str
    subjects: tuple[str, ...]
    reader: int
    hashes: Mapping[str, str]

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read it from a result. Raises KeyError, TypeError or ValueError when it is something else."""
        subjects = tuple(str(subject) for subject in fields["subjects"])
        hashes = {str(int(number)): str(sha256) for number, sha256 in dict(fields["hashes"]).items()}
        return cls(str(fields["column"]), str(fields["kind"]), subjects, int(fields["reader"]), hashes)
