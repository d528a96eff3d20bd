"""The report of an audit, as it is stored, and in words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport, Finding, PartitionCounts, Problem, WrittenMissing
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.topic_identity import Source
from tests.unit.spark.manifests import manifest_of


def _counted(manifest: Manifest, place: int, rows: int) -> PartitionCounts:
    """A partition's counts, whose log has a record at each offset."""
    whole = manifest.ranges[place].log_range
    checksum = Checksum.of(manifest).every_offset([whole]).checksum
    return PartitionCounts(*whole, rows, checksum if rows == whole.span else 7, whole.span, checksum)


COMPLETE = AuditReport(
    run="0a1b2c3d",
    window="w",
    manifest_sha256="sha",
    table=AuditedTable(table="lake.orders"),
    counts={},
    findings=(),
    partitions=(PartitionCounts("t", 0, 0, 10, 10, 7, 10, 7), PartitionCounts("t", 1, 5, 8, 3, -1, 3, -1)),
    audited_ms=1,
    seconds=0.5,
)
LACKING = replace(
    COMPLETE,
    counts={"missing": 9, "doubled": 1},
    findings=(
        Finding(Problem.DOUBLED, "t", 0, 4, 5, 1),
        *(Finding(Problem.MISSING, "t", 1, each, each + 2, 2, 5, 6, "0" * 16) for each in (5, 9, 13)),
    ),
    partitions=(PartitionCounts("t", 0, 0, 10, 11, 5, None, None),),
    looked_at=10,
    source=Source("cluster", {"t": "id"}, 5),
    written=WrittenMissing("file:///missing", 9, 3),
)


@pytest.mark.parametrize("report", [COMPLETE, LACKING], ids=["complete", "lacking"])
def test_it_is_read_as_it_was_written(report: AuditReport) -> None:
    assert AuditReport.from_bytes(report.to_bytes()) == report


def test_its_words_name_the_first_places_and_count_the_rest() -> None:
    assert str(COMPLETE) == ("lake.orders is complete: 13 rows, each record once (by its own counts and checksums)")
    assert str(LACKING) == (
        "lake.orders isn't complete: 9 records missing, 1 row doubled. "
        "Missing: t-1 at 5 to 6, t-1 at 9 to 10, t-1 at 13 to 14 and 3 more. Doubled: t-0 at 4."
    )
    assert str(replace(COMPLETE, counted=13)).endswith("each record once (compared with the records counted in time)")
    assert (COMPLETE.records, LACKING.records) == (13, None)
    assert str(replace(COMPLETE, compacted=("t",), unconfirmed=2)) == (
        "lake.orders is complete: 13 rows, each record once, and of 2 rows, compaction may have removed the record (by "
        "its own counts and checksums)"
    )


def test_what_is_missing_and_gone_is_not_said_to_be_written() -> None:
    assert COMPLETE.repair is None
    assert LACKING.repair == "The missing records are in file:///missing."
    some = replace(LACKING, written=WrittenMissing("file:///missing", 1, 3))
    assert some.repair == "1 of the 9 missing records is in file:///missing; Kafka no longer has the others."


@pytest.mark.parametrize("change", [{"format": 2}, {"run": "../x"}, {"partitions": [{}]}, {"table": {"tabel": "x"}}])
def test_anything_else_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LedgerCorruptError, match="not the report of an audit"):
        AuditReport.from_bytes(json.dumps(plain_json.to_json(COMPLETE) | change).encode())


class TestChecks:
    """What is recorded must fit the window, and itself."""

    MANIFEST = manifest_of([("t", 0, 0, 10), ("t", 1, 5, 8), ("u", 0, 4, 4)])
    LACKS_ONE = replace(
        COMPLETE,
        counts={"missing": 1},
        findings=(Finding(Problem.MISSING, "t", 1, 6, 7, 1),),
        partitions=(_counted(MANIFEST, 0, 10), _counted(MANIFEST, 1, 2)),
    )

    def test_a_true_one_fits(self) -> None:
        self.LACKS_ONE.check(self.MANIFEST)

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"partitions": LACKS_ONE.partitions[:1]}, "its partitions aren't the window's"),
            ({"partitions": ()}, "its partitions aren't the window's"),
            ({"counts": {"missing": 1, "lost": 1}}, "it counts"),
            ({"counts": {"missing": 0}, "findings": ()}, "it counts"),
            ({"counts": {}, "findings": ()}, "12 rows don't come from 13 records"),
            (
                {
                    "counts": {},
                    "findings": (),
                    "partitions": (_counted(MANIFEST, 0, 10), PartitionCounts("t", 1, 5, 8, 3, 7, 3, 8)),
                },
                "it finds nothing wrong, and the rows aren't the records",
            ),
        ],
    )
    def test_one_that_is_damaged_is_refused(self, change: dict[str, Any], told: str) -> None:
        with pytest.raises(LedgerCorruptError, match=told):
            replace(self.LACKS_ONE, **change).check(self.MANIFEST)
